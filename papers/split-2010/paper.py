"""The figures of the paper: Ohno, Sugaya, Akioka, Nakajima: SPLiT, optimal resource assignment by process behaviour
prediction (2010).

Core i7 965 (4 cores of 2 logical processors, 3.2 GHz), Linux 2.6.30, Apache 2.2.11, MySQL 5.1.32, RUBiS in PHP, JMeter.
"""

# Table 10: CPUs A and B, seconds of 1,000,000 calls that alternate between them. The available copy ends after the
# first row.
TABLE_10 = {("0", "0"): 0.325}

# Figure 5 in words, because the picture is missing in the available copy.
FIGURE_5 = (
    "time for a KB is about the same for all sizes",
    "staying on processor 0 is fastest",
    "moving costs the same wherever one moves to",
)

# Table 9: response time against the default scheduler, percent; both tiers with four logical processors each.
TABLE_9 = {"grouped": -16.4, "split": +60.0}

# Table 8: the same with all parts enabled, in the scenario of much data.
TABLE_8_MUCH_DATA = -26.0
