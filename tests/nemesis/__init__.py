"""Five real agents, people who submit jobs to them, and a nemesis; then everything is counted.

    python -m tests.nemesis --seed 7 --seconds 60

Lives here: what people ask for (`people`), what is done to machines and networks (`faults`), what
must hold afterwards (`checker`), a whole round (`trial`). Never here: agents and networks
themselves (`mesh_lab`, `namespaces`), what a liar says (`lies`).
"""
