"""The tools of this house, run as `python -m scripts.NAME` by the Makefile.

Lives here: rows, stages of `make test`, the coverage gate, the generated reference.
Never here: anything the product needs at run time.
"""
