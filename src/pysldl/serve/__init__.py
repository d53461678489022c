"""A model as an HTTP service and as a page: ``sldl serve``. Needs the extra ``serve``."""
