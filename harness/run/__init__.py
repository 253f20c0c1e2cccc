"""One training run: its session, its loop, its folder, its charts, and the hardware it runs on.

`harness.cli` and the probes of problem 32 call it. It may import every other package of the harness.
"""
