"""How fast it is, on the machine at hand: `python -m benchmarks`. Never imported by the product."""
