"""Requests and responses of the service, as the types that msgspec decodes, checks and describes."""

from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta, Struct, defstruct

from pysldl.inspection.relations import MIN_COUNT, TOP_OF_LABEL, Verb
from pysldl.serve.limits import Limits

LARGEST = 1e12  # squares and sums of larger values leave single precision
LARGEST_COUNT = 10**9
MOST_CHARACTERS = 200
DEFAULT_LABELS = 20
MOST_CHOSEN = 1000
LONGEST_NAME = 1000
LEAST_PAIRS = 1000  # a row may name a column more than once

Value = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]


class _Message(Struct, forbid_unknown_fields=True):
    pass


# Requests. `request_types` narrows these to the model and the limits of a service.


class SparseRow(_Message):
    """A row as pairs of column and value."""

    sparse: list[tuple[float, float]]


Input = str | list[float] | SparseRow


class PredictRequest(_Message):
    """Ask for the best labels of one input or of several; all inputs are of one kind."""

    input: Input | None = None
    inputs: list[Input] | None = None
    k: int | None = None
    threshold: float | Literal["learned"] | None = None
    labels: list[str] | None = None


class ExplainRequest(_Message):
    """Ask why an input gets a label."""

    input: Input
    label: str
    top: int | None = None


class LabelsQuery(_Message):
    """Ask for labels by name and frequency."""

    query: Annotated[str, Meta(max_length=MOST_CHARACTERS, description="Part of the name, in any case.")] = ""
    min_count: Count = 0
    offset: Count = 0
    limit: int = DEFAULT_LABELS


class RelationsQuery(_Message):
    """Ask for the relations of one label."""

    label: Annotated[str, Meta(min_length=1, description="The exact name of a label.")]
    limit: int = TOP_OF_LABEL
    min_count: Annotated[Count, Meta(description="Leave out other labels on fewer training rows.")] = MIN_COUNT


class FeedbackRequest(_Message):
    """The labels that a person chose for a text, and those that the person rejected."""

    input: str
    labels: list[str]
    rejected: list[str] = []


class SuggestForm(_Message):
    """A text to be indexed, as Annif sends it."""

    text: str
    limit: Annotated[int, Meta(ge=1, le=LARGEST_COUNT, description="No more than --max-k are sent.")] = 10
    threshold: float = 0.0


class NoQuery(_Message):
    """Ask without parameters."""


class RequestTypes(NamedTuple):
    """The request types of one service."""

    predict: type[PredictRequest]
    explain: type[ExplainRequest]
    labels: type[LabelsQuery]
    relations: type[RelationsQuery]
    feedback: type[FeedbackRequest]
    suggest: type[SuggestForm]


def request_types(
    limits: Limits, n_features: int, *, calibrated: bool, texts: bool = True, vectors: bool = True
) -> RequestTypes:
    """Return the request types, bounded by a model and by the limits of a service.

    ``n_features`` is the length of a vector. In a ``calibrated`` model a threshold is a probability, or the learned
    one; else it is a score.
    """
    column = Annotated[float, Meta(ge=0, le=n_features - 1, multiple_of=1)]
    pairs = Annotated[list[tuple[column, Value]], Meta(max_length=max(n_features, LEAST_PAIRS))]
    row = _narrow(SparseRow, sparse=(pairs,))
    kinds: Any = Annotated[list[Value], Meta(min_length=n_features, max_length=n_features)] | row if vectors else None
    if texts:
        text = Annotated[str, Meta(extra_json_schema={"pattern": r"\S"})]
        kinds = text if kinds is None else text | kinds
    up_to_k: Any = Annotated[int, Meta(ge=1, le=limits.max_k)]
    threshold: Any = Annotated[float, Meta(ge=0, le=1)] | Literal["learned"] if calibrated else Value
    names = Annotated[list[str], Meta(min_length=1, max_length=limits.max_k)]
    chosen: Any = Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]], Meta(max_length=MOST_CHOSEN)
    ]
    rows = Annotated[list[kinds], Meta(min_length=1, max_length=limits.max_rows)]
    return RequestTypes(
        _narrow(
            PredictRequest,
            input=(kinds | None, None),
            inputs=(rows | None, None),
            k=(up_to_k | None, None),
            threshold=(threshold | None, None),
            labels=(names | None, None),
        ),
        _narrow(ExplainRequest, input=(kinds,), label=(str,), top=(up_to_k | None, None)),
        _narrow(LabelsQuery, limit=(up_to_k, min(DEFAULT_LABELS, limits.max_k))),
        _narrow(RelationsQuery, limit=(up_to_k, min(TOP_OF_LABEL, limits.max_k))),
        _narrow(FeedbackRequest, labels=(chosen,), rejected=(chosen, [])),
        SuggestForm,
    )


T = TypeVar("T", bound=Struct)


def _narrow(base: type[T], **fields: tuple[Any, ...]) -> type[T]:
    """Return a subclass whose fields have other types and, where given, other defaults."""
    narrowed: Any = defstruct(base.__name__, [(name, *field) for name, field in fields.items()], bases=(base,))
    narrowed.__doc__ = base.__doc__
    return narrowed  # type: ignore[no-any-return]


# Responses


class ErrorBody(_Message):
    """A stable code for programs, and a sentence for people."""

    code: str
    message: str


class ErrorResponse(_Message):
    """A request that is refused."""

    error: ErrorBody


class ScoredLabel(_Message):
    """A label of an input; `chosen` says whether its score reaches the learned threshold."""

    label: str
    uri: str | None
    score: float
    probability: float | None
    chosen: bool | None


class Prediction(_Message):
    """The labels of one input, how many of its features are not zero, and how many of those tell labels apart."""

    features: int
    informative: Annotated[int, Meta(description="Features that are not stop words; where 0, no label is chosen.")]
    labels: list[ScoredLabel]


class PredictResponse(_Message):
    """The best labels of every input."""

    version: str
    predictions: list[Prediction]


class SimilarRow(_Message):
    """A similar training row, and its part of the score."""

    row: int
    similarity: float
    contribution: float
    labels: list[str]
    text: str | None


class TermInScore(_Message):
    """The part of a feature in the score, and the words of the text behind it."""

    feature: str
    value: float
    contribution: float
    words: list[str]


class RelatedCandidate(_Message):
    """Another candidate of the row, its score, its training rows, and how many of them have the explained label."""

    label: str
    score: float
    rows: int
    rows_with_both: int


class ExplainResponse(_Message):
    """The similar training rows, the linear terms and the other candidates behind a score."""

    version: str
    label: str
    uri: str | None
    score: float
    probability: float | None
    neighbors: list[SimilarRow]
    terms: list[TermInScore]
    terms_total: float
    terms_meaning: str
    related: list[RelatedCandidate]


class LabelCount(_Message):
    """A label and its training rows."""

    label: str
    uri: str | None
    count: int


class Concept(_Message):
    """An entry of the vocabulary; `known` says whether it is a label of the model."""

    label: str
    uri: str
    known: bool


class LabelsResponse(_Message):
    """Some of the labels found; `total` is the number of all of them."""

    version: str
    total: int
    labels: list[LabelCount]


class RelatedLabel(_Message):
    """The other label of a relation, and what the counts of training rows say of it."""

    label: str
    count: Annotated[int, Meta(description="Training rows of the other label.")]
    verb: Annotated[Verb, Meta(description="What the counts support, read from the rarer label to the other.")]
    n_both: Annotated[int, Meta(description="Training rows with both labels.")]
    share: Annotated[float, Meta(description="Share of the rarer label's rows that carry the more frequent one.")]
    share_low: Annotated[float, Meta(description="Lower bound of that share, with 95 % confidence.")]
    confidence: Annotated[float, Meta(description="How sure the direction is, from 0 to 1.")]
    kl: Annotated[float | None, Meta(description="KL(rarer || other) of the Gaussians; null without Gaussians.")]
    kl_reverse: float | None


class RelationsResponse(_Message):
    """Relations of a label to more frequent ones, and of rarer ones to it; strongest first."""

    version: str
    label: str
    uri: str | None
    count: int
    outgoing: list[RelatedLabel]
    incoming: list[RelatedLabel]
    broader: Annotated[list[Concept], Meta(description="Of the vocabulary of the model, if it has one.")]
    narrower: list[Concept]
    related: list[Concept]


class MapResponse(_Message):
    """Places of the most frequent labels, and arrows between them as positions in `labels`."""

    version: str
    total: Annotated[int, Meta(description="Number of labels of the model.")]
    labels: list[str]
    counts: list[int]
    x: list[float]
    y: list[float]
    source: list[int]
    target: list[int]
    strength: Annotated[
        list[float], Meta(description="Lower bound of the share of the source's rows that carry the target.")
    ]
    narrower: Annotated[
        list[tuple[int, int]], Meta(description="Links of the vocabulary between these labels: narrower, broader.")
    ]


class CalibrationFacts(_Message):
    """The learned threshold, and points of the curve from scores to probabilities."""

    threshold: float
    held_out_f1: float
    scores: list[float]
    probabilities: list[float]


class ModelResponse(_Message, rename={"model_class": "class"}):
    """What the model is made of, and its quality on held-out rows."""

    version: str
    name: str
    model_class: str
    created: str
    library_version: str
    n_bytes: int
    n_samples: int
    n_features: int
    n_labels: int
    n_labels_seen: int
    takes: list[str]
    fitted_on: dict[str, Any]
    parameters: dict[str, Any]
    calibration: CalibrationFacts | None
    held_out: dict[str, Any] | None
    frequencies: list[float]
    example: Annotated[str | None, Meta(description="A text to try.")]
    feedback: Annotated[Literal["download", "file", "learn"] | None, Meta(description="Where feedback goes.")]
    max_rows: int
    max_bytes: int


class FeedbackResponse(_Message):
    """What was done with feedback."""

    saved: bool
    learned: bool


class SuggestedSubject(_Message):
    """A label as Annif names it."""

    uri: str
    label: str
    notation: str | None
    score: float


class SuggestResponse(_Message):
    """The best labels of a text, as Annif's clients expect them."""

    results: list[SuggestedSubject]


class Project(_Message):
    """The model, as Annif's clients expect a project."""

    project_id: str
    name: str
    language: str
    backend: dict[str, str]
    is_trained: bool
    modification_time: str


class ProjectsResponse(_Message):
    """The models of the service."""

    projects: list[Project]


class StateResponse(_Message):
    """That the service is there."""

    status: Literal["ok"]


class HealthResponse(_Message):
    """Which version is served, and why a newer one is not."""

    status: Literal["ok"]
    version: str
    model: str
    problem: str | None
