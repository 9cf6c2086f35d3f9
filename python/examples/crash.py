# %% [markdown]
# # Does a Python program's database survive a crash?
# The program is below: it keeps a counter in a JSON file and replaces the file. It runs once, as it is; then a Python function
# looks at every state that a crash of that run could have left.
# %%
import json
import os
import sys
import tempfile

import strandline as sl

PROGRAM = """
import json, os, sys
folder, careful = sys.argv[1], sys.argv[2] == "careful"
for count in range(1, 3):
    with open(folder + "/new", "w") as file:
        json.dump({"count": count}, file)
        if careful:
            file.flush()
            os.fsync(file.fileno())
    os.rename(folder + "/new", folder + "/counter.json")
    if careful:
        os.fsync(os.open(folder, os.O_DIRECTORY))
"""


def recover(folder):
    """Raises if the counter is torn: a counter that is not there yet is right."""
    path = os.path.join(folder, "counter.json")
    if os.path.exists(path):
        with open(path) as file:
            text = file.read()
        assert text, "the counter is empty"
        assert json.loads(text)["count"] in (1, 2)


# %%
def check(how):
    with tempfile.TemporaryDirectory() as place:
        data = os.path.join(place, "data")
        os.mkdir(data)
        command = [sys.executable, "-c", PROGRAM, data, how]
        return sl.check(command, recover, files=[data], platform="posix", out=os.path.join(place, "out"))


careless = check("careless")
print(careless)
careful = check("careful")
print(careful)
assert careless.found and not careful.found
