"""What somebody with scikit-learn would run; prints what it found as JSON."""

import json
import os
import sys
import threading

import joblib
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import distributed_grid.joblib  # noqa: F401
from distributed_grid.client.cluster import connect

cluster = connect(sys.argv[1])


def place(number):
    """Where it ran, after a while."""
    threading.Event().wait(0.05)
    return number, "barn" if "GRID_JOB_SOCKET" in os.environ else "desk"


def picky(number):
    if number == 3:
        raise LookupError(number)
    return number


def late(number):
    threading.Event().wait(600 if number else 0)
    return 1 / number


def run(function, items):
    return joblib.Parallel(n_jobs=-1)(joblib.delayed(function)(item) for item in items)


def error_of(function, items):
    try:
        run(function, items)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return ""


def search(backend, **options):
    x, y = load_iris(return_X_y=True)
    with joblib.parallel_config(backend, **options):
        grid = {"C": [0.1, 1, 10], "gamma": [0.01, 0.1]}
        found = GridSearchCV(SVC(), grid, cv=5, n_jobs=-1).fit(x, y)
    return found.best_params_ | {"score": found.best_score_}


found = {"grid": search("grid", cluster=cluster), "here": search("sequential")}
with joblib.parallel_config("grid", cluster=cluster):
    found["workers"] = joblib.effective_n_jobs(-1), joblib.effective_n_jobs(-2)
    seen = set()
    while len(seen) < 2:  # The test has a limit.
        numbers, places = zip(*run(place, range(40)), strict=True)
        assert numbers == tuple(range(40)), numbers
        seen |= set(places)
    found["seen"] = sorted(seen)
    found["picky"] = error_of(picky, range(20))
    found["late"] = error_of(late, range(8))
    found["after"] = run(abs, [-1, -2])
with joblib.parallel_config("grid", cluster=cluster, cpus=2):
    found["wide"] = joblib.effective_n_jobs(-1)
print(json.dumps(found))
