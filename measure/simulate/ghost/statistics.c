/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Prints the results of the stretches.
 */
#define _GNU_SOURCE
#include "statistics.h"

#include <stdlib.h>
#include <string.h>

struct hm_statistics hm_statistics;

const char *const hm_verdict_name[HM_VERDICTS] = {[HM_SAME] = "same",
                                                  [HM_UNCHECKED] = "unchecked",
                                                  [HM_OTHER_CALL] = "other_call",
                                                  [HM_OTHER_REGISTERS] = "other_registers",
                                                  [HM_DIED] = "died",
                                                  [HM_UNSUPPORTED] = "unsupported",
                                                  [HM_SIGNAL] = "signal",
                                                  [HM_UNFINISHED] = "unfinished"};

static int ascending(const void *a, const void *b) {
  uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
  return first < second ? -1 : first > second;
}

uint32_t hm_pause_quantile(struct hm_statistics *statistics, double part) {
  uint32_t kept = statistics->pauses < HM_MOST_PAUSES ? statistics->pauses : HM_MOST_PAUSES;
  if (kept == 0) return 0;
  qsort(statistics->pause, kept, sizeof statistics->pause[0], ascending);
  uint32_t index = (uint32_t)(part * kept);
  return statistics->pause[index < kept ? index : kept - 1];
}

static double per(double value, double whole) { return whole > 0 ? value / whole : 0; }

static uint64_t finished(const struct hm_statistics *statistics) {
  const uint64_t *verdict = statistics->verdicts;
  return verdict[HM_SAME] + verdict[HM_OTHER_CALL] + verdict[HM_OTHER_REGISTERS] + verdict[HM_DIED];
}

static uint64_t stretches(const struct hm_statistics *statistics) {
  uint64_t sum = 0;
  for (int i = 0; i < HM_VERDICTS; i++) sum += statistics->verdicts[i];
  return sum;
}

void hm_print_statistics(struct hm_statistics *statistics, FILE *out) {
  const uint64_t *verdict = statistics->verdicts, *events = statistics->counted.events;
  uint64_t all = stretches(statistics), checked = finished(statistics);
  double instructions = (double)events[HM_INSTRUCTIONS];
  double accesses = (double)(events[HM_LOADS] + events[HM_STORES]);
  fprintf(out,
          "windows       %lu in %lu rounds; %lu found the process waiting, %lu refused, "
          "%lu ended by the watchdog\n",
          statistics->windows, statistics->rounds, statistics->idle_windows,
          statistics->refused_windows, statistics->killed);
  fprintf(out, "stretches     %lu; self-check: %lu of %lu the same (%.2f %%)\n", all,
          verdict[HM_SAME], checked, 100 * per((double)verdict[HM_SAME], (double)checked));
  fprintf(out, "  dropped     %lu at another call, %lu with other registers, %lu died\n",
          verdict[HM_OTHER_CALL], verdict[HM_OTHER_REGISTERS], verdict[HM_DIED]);
  fprintf(
      out, "  not checked %lu reached the limit (%.1f %% of the instructions kept)\n",
      verdict[HM_UNCHECKED],
      100 * per((double)statistics->unchecked_instructions,
                (double)(statistics->unchecked_instructions + statistics->checked_instructions)));
  fprintf(out, "  lost        %lu to the emulator (%.2f %%), %lu to signals, %lu unfinished\n",
          verdict[HM_UNSUPPORTED], 100 * per((double)verdict[HM_UNSUPPORTED], (double)all),
          verdict[HM_SIGNAL], verdict[HM_UNFINISHED]);
  uint32_t half = hm_pause_quantile(statistics, 0.5), late = hm_pause_quantile(statistics, 0.99);
  fprintf(
      out, "pauses        p50 %.3f ms, p99 %.3f ms, max %.3f ms (%u copies of %lu hot pages; %s)\n",
      half / 1e6, late / 1e6, hm_pause_quantile(statistics, 1) / 1e6, statistics->pauses,
      statistics->hot_pages, statistics->real_time ? "real-time priority" : "ordinary priority");
  fprintf(out,
          "emulated      %.1f M instructions, %.1f MIPS; %lu blocks translated, %lu run natively\n",
          (double)statistics->instructions / 1e6,
          1e3 * per((double)statistics->instructions, (double)statistics->emulated_ns),
          statistics->translations, statistics->native);
  fprintf(out, "pages         %lu fetched late, %lu added by scouts\n", statistics->fetched,
          statistics->added);
  fprintf(out, "run-in        %lu stretches, %.1f M instructions, not counted\n",
          statistics->run_in_stretches, (double)statistics->run_in_instructions / 1e6);
  fprintf(out, "counted       %.1f M instructions: %.3f %% of %.2f s that the processes computed\n",
          instructions / 1e6, 100 * per(statistics->kept_ns, statistics->stood_for_ns),
          statistics->stood_for_ns / 1e9);
  fprintf(out, "  loads, stores    %.3f, %.3f per instruction\n",
          per((double)events[HM_LOADS], instructions),
          per((double)events[HM_STORES], instructions));
  fprintf(out, "  L1D misses       %.2f %% of accesses\n",
          100 * per((double)events[HM_L1D_MISS], accesses));
  fprintf(out, "  L1I misses       %.2f per 1,000 instructions\n",
          1000 * per((double)events[HM_L1I_MISS], instructions));
  fprintf(out, "  L2 misses        %.3f per 1,000 instructions\n",
          1000 * per((double)events[HM_L2_MISS], instructions));
  fprintf(out, "  coherence misses %.3f per 1,000 instructions\n",
          1000 * per((double)events[HM_COHERENCE_MISS], instructions));
  fprintf(out, "  page walks       %.3f per 1,000 instructions\n",
          1000 * per((double)events[HM_STLB_MISS], instructions));
  fprintf(out, "  time             %.3f ns an instruction; %.3f while it is followed\n",
          statistics->ns_alone, statistics->ns_followed);
}

int hm_store_statistics(struct hm_statistics *statistics, const char *path) {
  FILE *out = fopen(path, "we");
  if (out == NULL) return 0;
  fprintf(out, "{\"rounds\":%lu,\"ns_followed\":%.4f,\"ns_alone\":%.4f,", statistics->rounds,
          statistics->ns_followed, statistics->ns_alone);
  fprintf(out, "\"windows\":%lu,\"idle_windows\":%lu,\"refused_windows\":%lu,\"watchdog\":%lu",
          statistics->windows, statistics->idle_windows, statistics->refused_windows,
          statistics->killed);
  fprintf(out, ",\"stretches\":{");
  for (int i = 0; i < HM_VERDICTS; i++)
    fprintf(out, "%s\"%s\":%lu", i == 0 ? "" : ",", hm_verdict_name[i], statistics->verdicts[i]);
  fprintf(out, "},\"pauses\":{\"n\":%u,\"p50_ns\":%u,\"p99_ns\":%u,\"max_ns\":%u,\"sum_ns\":%lu}",
          statistics->pauses, hm_pause_quantile(statistics, 0.5),
          hm_pause_quantile(statistics, 0.99), hm_pause_quantile(statistics, 1),
          statistics->paused_ns);
  fprintf(out, ",\"kept_ns\":%.0f,\"stood_for_ns\":%.0f,\"scaled\":[", statistics->kept_ns,
          statistics->stood_for_ns);
  for (int event = 0; event < HM_EVENTS; event++)
    fprintf(out, "%s%.0f", event == 0 ? "" : ",", statistics->scaled[event]);
  fprintf(out, "],\"real_time\":%s,\"hot_pages\":%lu,\"fetched_pages\":%lu",
          statistics->real_time ? "true" : "false", statistics->hot_pages, statistics->fetched);
  fprintf(out, ",\"kept\":%lu", statistics->kept);
  fprintf(out, ",\"instructions\":%lu,\"checked_instructions\":%lu,\"unchecked_instructions\":%lu",
          statistics->instructions, statistics->checked_instructions,
          statistics->unchecked_instructions);
  fprintf(out, ",\"emulated_ns\":%lu,\"native_instructions\":%lu,\"translations\":%lu",
          statistics->emulated_ns, statistics->native, statistics->translations);
  const uint64_t *events = statistics->counted.events;
  fprintf(out, ",\"counted\":{\"counted_instructions\":%lu,\"loads\":%lu,\"stores\":%lu",
          events[HM_INSTRUCTIONS], events[HM_LOADS], events[HM_STORES]);
  fprintf(out, ",\"l1d_misses\":%lu,\"l2_misses\":%lu", events[HM_L1D_MISS], events[HM_L2_MISS]);
  fprintf(out, ",\"coherence_misses\":%lu,\"invalidations\":%lu}", events[HM_COHERENCE_MISS],
          events[HM_INVALIDATION]);
  fprintf(out, ",\"run_in_stretches\":%lu,\"run_in_instructions\":%lu}\n",
          statistics->run_in_stretches, statistics->run_in_instructions);
  return fclose(out) == 0;
}
