"""Trains a small network on handwritten digits that lie in CNTK's text format, as a notebook would: cell by cell.

    python examples/digits.py [FOLDER]

The 1,797 digits come with scikit-learn (8 × 8 pixels of 0 to 16, from the UCI repository). They are written once as two
CTF files to FOLDER (default: digits), and read from there: first through headrace's own surface, then as a script
written for CNTK would, with only its imports changed.
"""

# %% Write the digits as CTF, one line a digit: |features 64 numbers |label a one-hot vector, sparse
import pathlib
import sys

import numpy as np
import scipy.sparse
import torch
from sklearn.datasets import load_digits

import headrace as hr

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "digits")
folder.mkdir(parents=True, exist_ok=True)

images, digits = load_digits(return_X_y=True)
images = images.astype(np.float32)
order = np.random.default_rng(1).permutation(len(digits))
for name, part in (("test", order[:360]), ("train", order[360:])):
    one_hot = np.eye(10, dtype=np.float32)[digits[part]]
    hr.write_ctf(folder / f"{name}.ctf", {"features": images[part], "label": scipy.sparse.csr_matrix(one_hot)})

print((folder / "train.ctf").read_text().splitlines()[0])

# %% Say which streams the files hold; shuffle, batch, and hand over as torch tensors
streams = {"features": hr.dense(64), "label": hr.sparse(10)}
train = hr.read_ctf(folder / "train.ctf", streams).shuffle(seed=7).batch(64)
test = hr.read_ctf(folder / "test.ctf", streams).batch(64)
loader = hr.Loader(train, to="torch")

# %% A network, and a step of training. The labels are sparse rows (torch's CSR): dense is what the loss wants
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)


def loss_of(features: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The cross entropy of a batch: features (64, 64), labels (64, 10)."""
    return torch.nn.functional.cross_entropy(model(features / 16), label)


def accuracy(data: hr.Dataset) -> float:
    """The share of digits that the model tells right."""
    right = total = 0
    with torch.no_grad():
        for batch in hr.Loader(data, to="torch"):
            right += int((model(batch["features"] / 16).argmax(1) == batch["label"].to_dense().argmax(1)).sum())
            total += len(batch["features"])
    return right / total


# %% Train for ten epochs
for epoch in range(10):
    for batch in loader:
        loss = loss_of(batch["features"], batch["label"].to_dense())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}, accuracy on unseen digits {accuracy(test):.3f}")
print(loader.stats())

# %% The same files, as a script for CNTK reads them: three lines of imports are all that changes
from headrace.cntk import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs  # noqa: E402

source = MinibatchSource(
    CTFDeserializer(
        str(folder / "train.ctf"),
        StreamDefs(
            features=StreamDef(field="features", shape=64),
            label=StreamDef(field="label", shape=10, is_sparse=True),
        ),
    ),
    max_sweeps=2,
)
steps = 0
while minibatch := source.next_minibatch(64):
    data, label = minibatch[source["features"]], minibatch[source["label"]]
    features = torch.from_numpy(np.asarray(data.asarray()).reshape(data.num_samples, 64))
    wanted = torch.from_numpy(np.concatenate([one.toarray() for one in label.as_sequences()]))
    loss = loss_of(features, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps += 1
print(f"two more sweeps, {steps} minibatches: accuracy on unseen digits {accuracy(test):.3f}")
