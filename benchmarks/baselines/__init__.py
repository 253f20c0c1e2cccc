"""What others do, written out to be measured beside us."""
