"""AdaBoost.C2: boosted classifier chains."""
