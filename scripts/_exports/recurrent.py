"""Recurrent networks."""

from __future__ import annotations

import torch
from torch import nn

from _exports.network import BATCH, Built, Network, words


class Recurrent(nn.Module):
    """Embedded tokens, a recurrent network, and the classes of its last state."""

    def __init__(self, kind: type[nn.RNNBase], *, both: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(99, 12)
        self.inner = kind(12, 16, num_layers=2, batch_first=True, bidirectional=both)
        self.head = nn.Linear(32 if both else 16, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the probabilities of classes, as logarithms."""
        return self.head(self.inner(self.table(tokens))[0][:, -1]).log_softmax(-1)


class Listener(nn.Module):
    """Convolutions over a spectrogram, a GRU, and a class for every step (CTC)."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Conv2d(1, 4, 3, (2, 1), 1), nn.BatchNorm2d(4), nn.Hardtanh(0, 20))
        self.inner = nn.GRU(32, 16, bidirectional=True)
        self.head = nn.Linear(32, 6)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Return probabilities for every step."""
        seen = self.before(data)
        steps = seen.flatten(1, 2).permute(2, 0, 1)
        return self.head(self.inner(steps)[0]).softmax(-1)


def _recurrent(kind: type[nn.RNNBase], *, both: bool = False, dynamic: bool = False) -> Built:
    return Built(Recurrent(kind, both=both), {"tokens": words()}, {"tokens": BATCH} if dynamic else {})


RECURRENT = (
    Network("lstm", "LSTM", lambda: _recurrent(nn.LSTM, dynamic=True)),
    Network("lstm_both_ways", "LSTM", lambda: _recurrent(nn.LSTM, both=True)),
    Network("gru", "GRU", lambda: _recurrent(nn.GRU)),
    Network("gru_ctc", "GRU", lambda: Built(Listener(), {"data": torch.randn(2, 1, 16, 20)})),
)
