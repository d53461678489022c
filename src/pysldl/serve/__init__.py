"""A model as an HTTP service with a page: ``sldl serve``. Needs the extra ``serve``."""
