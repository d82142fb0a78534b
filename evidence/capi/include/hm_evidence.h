/*
 * hm_evidence.h: intervals and trials of hardmeter-evidence for C, and through it for Python.
 *
 * A trial is driven by its caller, block by block:
 *
 *     hm_trial *trial = hm_trial_new(plan, message, sizeof(message));
 *     for (int next; (next = hm_trial_next(trial)) >= 0;)
 *       hm_trial_observe(trial, next, values_of(run(next)), metrics);
 *     if (hm_trial_verdict(trial, 1) == HM_BETTER) ...
 *     hm_trial_free(trial);
 *
 * `plan` is JSON: {"contestants": 2, "seed": 7, "design": "mirrored" or "pairs", "level": 0.05,
 * "most_rounds": 64, "carry_over_seconds": 0, "metrics": [{"name": "ms", "direction": "less" or
 * "more", "minimum_effect": 0.02, "role": "decides" or "guards"}]}; contestants, seed and metrics
 * must be there. A trial belongs to one thread at a time. No function ends the process or raises a
 * signal.
 */
#ifndef HM_EVIDENCE_H
#define HM_EVIDENCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hm_trial hm_trial;

enum { HM_BETTER = 0, HM_WORSE = 1, HM_SAME = 2, HM_UNDECIDED = 3 };

/* NULL if the plan is invalid; `message`, which may be NULL, then has the reason. */
hm_trial *hm_trial_new(const char *plan, char *message, size_t message_size);

/* From what hm_trial_state() wrote. NULL as above. */
hm_trial *hm_trial_resume(const char *state, char *message, size_t message_size);

void hm_trial_free(hm_trial *trial);

/* The contestant that runs next; -1 if the trial has ended. */
int hm_trial_next(const hm_trial *trial);

/* A value for each metric of the block that `contestant` ran. Returns 0, or -1 if it was not its
 * turn, the number of values is wrong, or the trial has ended. */
int hm_trial_observe(hm_trial *trial, int contestant, const double *values, size_t count);

/* HM_BETTER .. HM_UNDECIDED, for a challenger: 1 or more. */
int hm_trial_verdict(const hm_trial *trial, int contestant);

/* All challengers' standings, and the complete trial, as JSON. Free with hm_string_free(). */
char *hm_trial_standings(const hm_trial *trial);
char *hm_trial_state(const hm_trial *trial);
void hm_string_free(char *string);

/* A median with its 95 % interval. Returns 2: all; 1: too few values for an interval; 0: no
 * values. */
int hm_median(const double *values, size_t count, double *median, double *low, double *high);

/* A mean with Student's 95 % interval. As above. */
int hm_mean(const double *values, size_t count, double *mean, double *low, double *high);

/* The 95 % interval of `count` of `total` (Wilson). 1, or 0 of none. */
int hm_share(uint64_t count, uint64_t total, double *low, double *high);

#ifdef __cplusplus
}
#endif

#endif
