"""Makes a notebook of each script: `python to_notebooks.py`. The scripts are what is edited; `# %%` begins a cell."""

import json
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = [path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name]


def notebook(script):
    """The text of a script's notebook, without outputs."""
    cells = []
    for number, piece in enumerate(script.read_text().split("# %%")[1:]):
        head, _, body = piece.partition("\n")
        lines = body.strip("\n").splitlines()
        # Remarks at a cell's head are prose.
        prose = len(lines) if "[markdown]" in head else next(
            (at for at, line in enumerate(lines) if not line.startswith("# ")), len(lines)
        )
        for kind, part in (("markdown", [line[2:] for line in lines[:prose]]), ("code", lines[prose:])):
            if not part:
                continue
            cell = {"cell_type": kind, "id": f"cell-{number}-{kind}", "metadata": {}}
            if kind == "code":
                cell |= {"execution_count": None, "outputs": []}
            cells.append(cell | {"source": "\n".join(part)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


if __name__ == "__main__":
    for script in SCRIPTS:
        script.with_suffix(".ipynb").write_text(notebook(script))
