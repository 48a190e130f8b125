# Every task of a contributor, in an activated virtual environment. `.ci/run` and the workflows call them.
EXTRAS ?= all,test,pretrained,dev,docs

install: dependencies
	pre-commit install

dependencies:
	pip install -c constraints.txt -e ".[$(EXTRAS)]"

test:
	pytest -q -n 2

# some take half a minute: a worker without tests takes those that wait for the other
slow:
	pytest -q -n 2 -m slow --dist worksteal

# the package without extras loads, hashes, searches and counts, and says what is missing for more
bare:
	set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; python3 -m venv --without-pip $$folder/bare; \
	pip --python $$folder/bare/bin/python install -c constraints.txt .; \
	python tests/files/write.py $$folder/files; \
	$$folder/bare/bin/python tests/files/read.py $(wildcard tests/files/*.*/) $$folder/files

coverage:
	pytest -q -n 2 --cov --cov-report=term --cov-report=html

engines:
	pytest -q -m slow tests/test_engines.py

texts:
	pytest -q -m "slow or not slow" tests/test_mteb.py tests/stores/test_sentence_transformers.py skhash/mteb.py
	pytest -q -m slow tests/test_examples.py -k texts

lint:
	ruff check .
	ruff format --check .
	mypy
	actionlint

docs:
	pytest -q tests/docs
	$(MAKE) -C docs html check doctest

benchmark:
	pytest -q benchmarks/history.py \
	    -o addopts=--import-mode=importlib -o pythonpath=benchmarks --benchmark-autosave --benchmark-quiet
	pytest-benchmark compare --between=min

wheel:
	pip install -q -c constraints.txt build twine
	python -m build
	twine check --strict dist/*

.PHONY: install dependencies test slow bare coverage engines texts lint docs benchmark wheel
