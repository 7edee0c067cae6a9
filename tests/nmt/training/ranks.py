"""What the processes of `test_distributed.py` run: trains by several settings in turn, and keeps the last weights."""

import json
import sys
from pathlib import Path

import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.train import train


def main() -> None:
    """Reads the settings of all runs by name from a JSON file; each rank writes its weights into the run's folder."""
    torch.set_num_threads(1)
    rank = sys.argv[2] if len(sys.argv) > 2 else ""
    for settings in json.loads(Path(sys.argv[1]).read_text()).values():
        hparams = HParams().replace(**settings)
        result = train(hparams, quiet=True)
        torch.save(result.translator.model.state_dict(), Path(str(hparams.out_dir), f"weights{rank}"))


if __name__ == "__main__":
    import os

    sys.argv.append(os.environ.get("RANK", ""))
    main()
