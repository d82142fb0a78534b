/* A trial in C: prints its verdict, number of blocks, and intervals. */
#include "hm_evidence.h"

#include <stdio.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

static const char *PLAN =
    "{\"contestants\": 2, \"seed\": 7, \"metrics\": [{\"name\": \"ms\","
    " \"direction\": \"less\", \"minimum_effect\": 0.02}]}";

int main(void) {
  const double values[] = {6, 1, 5, 2, 4, 3};
  const double took[] = {10, 9};
  double median = 0, low = 0, high = 0;
  char message[200] = "";
  int blocks = 0;
  hm_trial *trial, *again;
  char *state;

  CHECK(hm_trial_new("{}", message, sizeof(message)) == NULL);
  CHECK(message[0] != '\0');
  CHECK(hm_trial_new(NULL, NULL, 0) == NULL);

  trial = hm_trial_new(PLAN, message, sizeof(message));
  CHECK(trial != NULL);
  for (int next; (next = hm_trial_next(trial)) >= 0; blocks++) {
    CHECK(hm_trial_observe(trial, 1 - next, took, 1) == -1);
    CHECK(hm_trial_observe(trial, next, &took[next], 1) == 0);
  }
  /* ABBA: seven rounds, see the tests in Rust. */
  CHECK(blocks == 28);
  CHECK(hm_trial_verdict(trial, 1) == HM_BETTER);
  CHECK(hm_trial_verdict(trial, 2) == HM_UNDECIDED);

  state = hm_trial_state(trial);
  CHECK(state != NULL);
  again = hm_trial_resume(state, message, sizeof(message));
  CHECK(again != NULL && hm_trial_verdict(again, 1) == HM_BETTER);
  hm_string_free(state);
  hm_trial_free(again);
  hm_trial_free(trial);

  CHECK(hm_median(values, 6, &median, &low, &high) == 2);
  CHECK(median == 3.5 && low == 1 && high == 6);
  CHECK(hm_median(values, 5, &median, NULL, NULL) == 1 && median == 4);
  CHECK(hm_median(NULL, 0, &median, NULL, NULL) == 0);
  CHECK(hm_mean(values, 6, &median, &low, &high) == 2 && median == 3.5 && low < 2 && high > 5);
  CHECK(hm_share(5, 14, &low, &high) == 1 && low > 0.1634 && low < 0.1635);
  CHECK(hm_share(0, 0, &low, &high) == 0);
  return 0;
}
