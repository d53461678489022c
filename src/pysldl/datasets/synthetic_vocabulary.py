"""The words of the synthetic world: what implies what, and how things are called."""

from collections.abc import Iterator
from typing import NamedTuple


class Scene(NamedTuple):
    """One broad label and the narrower ones that imply it, frequent first."""

    parent: str
    children: tuple[str, ...]


# A scene without children is a label that stands alone. Frequent scenes come first.
SCENES = (
    Scene("sky", ("cloud", "rain", "sunset", "rainbow", "storm", "snowfall")),
    Scene("people", ("crowd", "child", "portrait", "dancer", "worker", "bride")),
    Scene("vintage", ()),
    Scene("city", ("street", "bridge", "skyscraper", "market", "tram", "fountain")),
    Scene("water", ("river", "lake", "waterfall", "harbour", "wave", "glacier")),
    Scene("closeup", ()),
    Scene("animal", ("dog", "cat", "horse", "bird", "elephant", "fox")),
    Scene("food", ("bread", "fruit", "soup", "cheese", "cake", "noodles")),
    Scene("colorful", ()),
    Scene("forest", ("oak", "pine", "moss", "mushroom", "fern", "clearing")),
    Scene("music", ("guitar", "piano", "violin", "drum", "choir", "trumpet")),
    Scene("night", ()),
    Scene("sport", ("football", "running", "tennis", "swimming", "skiing", "rowing")),
    Scene("kitchen", ("oven", "kettle", "knife", "teapot", "sink", "whisk")),
    Scene("winter", ()),
    Scene("vehicle", ("car", "bicycle", "train", "lorry", "ferry", "tractor")),
    Scene("museum", ("painting", "statue", "fossil", "armour", "mosaic", "vase")),
    Scene("holiday", ()),
)

QUALITIES = ("", "bright", "distant", "old", "small", "quiet", "broad", "pale", "heavy", "plain")

FUNCTION_WORDS = """
the of and to in is that it was for on are with as at be this have from or one had by but not what
all were we when your can said there use an each which she do how their if will up other about out
many then them these so some her would make like him into time has look two more write go see number
no way could my than first been call who its now find long down day did get come made may part over
"""


def endless_scenes() -> Iterator[Scene]:
    """The scenes, then the same with a number behind each word, for as long as labels are wanted."""
    yield from SCENES
    round_ = 2
    while True:
        for scene in SCENES:
            yield Scene(f"{scene.parent} {round_}", tuple(f"{child} {round_}" for child in scene.children))
        round_ += 1


def phrase(label: str, position: int) -> str:
    """The term at ``position`` among those that speak of ``label``: "cloud", "bright cloud", ..."""
    round_, quality = divmod(position, len(QUALITIES))
    words = [QUALITIES[quality], label, f"({round_ + 1})" if round_ else ""]
    return " ".join(word for word in words if word)


def function_word(position: int) -> str:
    """The term at ``position`` among those that speak of no label."""
    words = FUNCTION_WORDS.split()
    round_, word = divmod(position, len(words))
    return words[word] + (f" ({round_ + 1})" if round_ else "")
