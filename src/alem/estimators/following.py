"""What is seen of a training while it runs: the bar, the best weights, and when to stop."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor, nn

from alem.training import History


class Follow:
    """Watches a training: ``best`` is the epoch, the score and the weights that were best in validation."""

    def __init__(self, network: nn.Module, patience: int | None, epochs: int, verbose: bool) -> None:
        self.network, self.patience = network, patience
        self.best: tuple[int | None, float | None, dict[str, Tensor] | None] = (None, None, None)
        self._bar: Any = None
        if verbose:
            from tqdm import tqdm

            self._bar = tqdm(total=epochs, unit="epoch")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, history: History) -> bool:
        shown = f"loss {history.loss[-1]:.4g}"
        stop = False
        if history.test_accuracy:
            score, epoch = history.test_accuracy[-1], len(history)
            shown += f", validation {score:.4g}"
            if self.best[1] is None or score > self.best[1]:
                self.best = epoch, score, state_of(self.network)
            assert self.best[0] is not None
            stop = self.patience is not None and epoch - self.best[0] >= self.patience
        if self._bar is not None:
            self._bar.set_postfix_str(shown, refresh=False)
            self._bar.update()
        return stop


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """A copy of the parameters and buffers, on the CPU."""
    return {key: t.detach().cpu().clone() for key, t in network.state_dict().items()}
