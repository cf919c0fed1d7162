"""A network of one's own from layers, under a learned metric, with the library's optimiser."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alem import data, geometry, optim
from alem.nn import BiMap, ChartNorm, LieBN, Vech


class Net(nn.Module):
    """BiMap, LieBN under a metric, and a linear classifier on the coordinates of that metric."""

    def __init__(self, n_in: int, n: int, n_classes: int) -> None:
        super().__init__()
        self.metric = geometry.SinhArcsinhLogEuclidean()
        self.reduce = nn.Sequential(BiMap(n_in, n), LieBN(n, self.metric))
        self.classify = nn.Sequential(ChartNorm(n), Vech(), nn.Linear(n * (n + 1) // 2, n_classes))

    def forward(self, X: Tensor) -> Tensor:
        logits: Tensor = self.classify(self.metric.chart(self.reduce(X)))
        return logits


def main() -> None:
    """Train for a few epochs and print the accuracy after each."""
    torch.manual_seed(0)
    digits = data.digits()
    assert digits.train is not None
    X, y = digits.matrices[digits.train], digits.labels[digits.train]
    held_out, truth = digits.matrices[~digits.train], digits.labels[~digits.train]
    net = Net(digits.n, 6, len(digits.classes)).double()
    optimizer = optim.RiemannianAMSGrad(net, lr=1e-2, metric_lr=0.3)
    for epoch in range(5):
        net.train()
        for batch in torch.randperm(len(X)).split(50):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(X[batch]), y[batch])
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = (net(held_out).argmax(-1) == truth).double().mean()
        print(f"epoch {epoch + 1}: {right:.1%}")


if __name__ == "__main__":
    main()
