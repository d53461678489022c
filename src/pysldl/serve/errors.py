"""Errors of the service: stable codes with their HTTP status."""

from http import HTTPStatus

from pysldl.serve.schemas import ErrorBody, ErrorResponse

# Clients may rely on code and status; the message is for people and may change.
CODES = {
    "invalid_json": HTTPStatus.BAD_REQUEST,
    "invalid_request": HTTPStatus.BAD_REQUEST,
    "text_expected": HTTPStatus.BAD_REQUEST,
    "vector_expected": HTTPStatus.BAD_REQUEST,
    "empty_text": HTTPStatus.BAD_REQUEST,
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "foreign_origin": HTTPStatus.FORBIDDEN,
    "not_found": HTTPStatus.NOT_FOUND,
    "unknown_label": HTTPStatus.NOT_FOUND,
    "not_supported": HTTPStatus.NOT_FOUND,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "not_learned": HTTPStatus.CONFLICT,
    "request_too_slow": HTTPStatus.REQUEST_TIMEOUT,
    "body_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "json_expected": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "form_expected": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "unknown_host": HTTPStatus.MISDIRECTED_REQUEST,
    "too_many_requests": HTTPStatus.TOO_MANY_REQUESTS,
    "head_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
    "overloaded": HTTPStatus.SERVICE_UNAVAILABLE,
    "timed_out": HTTPStatus.SERVICE_UNAVAILABLE,
    "not_ready": HTTPStatus.SERVICE_UNAVAILABLE,
}


class ServiceError(Exception):
    """A request that is refused, with one of :data:`CODES` and a sentence that says what to do.

    ``headers`` are further headers of the response, with underscores for hyphens.
    """

    def __init__(self, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = CODES[code]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def body(self) -> ErrorResponse:
        """Return the body of the response."""
        return ErrorResponse(ErrorBody(self.code, self.message))
