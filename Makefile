# The five commands of a contributor, in an activated virtual environment. `.ci/run` does all of it in a fresh one.
install:
	pip install -c constraints.txt -e ".[test,dev,docs]"
	pre-commit install

test:
	pytest -q -n 2

lint:
	ruff check .
	ruff format --check .
	mypy

docs:
	pytest -q tests/docs
	$(MAKE) -C docs html check doctest

wheel:
	pip install -q -c constraints.txt build twine
	python -m build
	twine check --strict dist/*

.PHONY: install test lint docs wheel
