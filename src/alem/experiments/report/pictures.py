"""The figures of a section, and what the best method confuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from alem.experiments import figures
from alem.experiments.figures.methods import DRAWN, NAMED
from alem.experiments.report.blocks import Block, Heading, Paragraph, Picture, Table
from alem.experiments.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFUSED = 8  # pairs of classes that are listed


def pictures(rows: Sequence[Row], slug: str) -> Iterator[Block]:
    """All that there is something to draw of; ``slug`` begins the names of the files."""
    looks = figures.looks(rows)
    if any(row.n for row in rows):
        yield _picture(
            figures.accuracies(rows, looks),
            f"{slug}-accuracies",
            "Accuracy after the last epoch over the whole test set. Dots are seeds; the bar is their mean, "
            "with one deviation to either side.",
        )
    if figures.has_history(rows):
        yield Heading("Training", 3)
        yield _picture(
            figures.curves(rows, looks, "test_accuracy"),
            f"{slug}-test-accuracy",
            "Accuracy over the whole test set after each epoch. Lines are means over seeds, bands one "
            "deviation; a cross is where a training has stopped.",
        )
        yield _picture(
            figures.curves(rows, looks, "loss"),
            f"{slug}-loss",
            "Training loss. Lines are means over seeds, bands one deviation.",
        )
        yield _picture(
            figures.training(rows, looks),
            f"{slug}-training",
            "Accuracy of each method: the line over the test set, dotted over the training samples as they "
            "were trained on.",
        )
    if figures.has_learned(rows):
        yield Heading("Learned parameters", 3)
        yield _picture(
            figures.learned(rows, looks),
            f"{slug}-learned",
            "What the parameters of logarithms and metrics have become: means over runs, with one "
            "deviation. Ranks count from the smallest eigenvalue; grey is where training began.",
        )
    if figures.has_spectra(rows):
        yield Heading("Spectra", 3)
        yield _picture(
            figures.spectra(rows, looks),
            f"{slug}-spectra",
            "Eigenvalues of the test samples by rank: ln σ of what enters the last logarithm, grey, and of "
            "what leaves it. Medians, and bands from 5 % to 95 % of the samples.",
        )
    if figures.has_history(rows):
        yield Heading("Time", 3)
        yield _picture(
            figures.timings(rows, looks),
            f"{slug}-time",
            "Seconds per epoch, evaluation included: quartiles, and whiskers from 5 % to 95 % of epochs.",
        )


def confused(best: Row, slug: str) -> Iterator[Block]:
    """The confusion matrix of the best method, and the pairs that it confuses most often."""
    counts, classes = figures.confusion_counts(best.records)
    if not counts.any():
        return
    yield Heading("Confusion", 3)
    caption = (
        f"{best.label}, the best by its mean accuracy after the last epoch ({100 * best.mean:.2f} %), over "
        "all its seeds: the share of each class that is taken for each."
    )
    if figures.available() and len(classes) <= DRAWN:
        yield _picture(figures.confusion(best), f"{slug}-confusion", caption)
    else:
        yield Paragraph(caption)
    pairs = [(int(counts[i, j]), i, j) for i, j in zip(*counts.nonzero(), strict=True) if i != j]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    if pairs:
        yield Paragraph("Most often confused:")
        yield Table(
            ("class", "taken for", "times", "of"),
            [
                (_name(i, classes), _name(j, classes), f"{n}", f"{counts[i].sum():.0f}")
                for n, i, j in pairs[:CONFUSED]
            ],
            text=2,
        )


def _name(place: int, classes: Sequence[str]) -> str:
    """A class, with its number where the figure has only that."""
    name = classes[place]
    return name if len(classes) <= NAMED or name == f"{place}" else f"{place}: {name}"


def _picture(figure: Figure, name: str, caption: str) -> Picture:
    return Picture(figures.draw(figure, name), name, caption)
