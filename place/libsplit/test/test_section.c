/* Sections: what is counted, for which kind, and nesting. */
#include "fixture.h"

static void spin(uint64_t cycles) {
  uint64_t begun = split_cycles();
  while (split_cycles() - begun < cycles) continue;
}

static void the_five_calls(void **state) {
  (void)state;
  uint32_t first = split_start(0, "first");
  split_end();
  uint32_t second = split_start(0, "second");
  split_end();
  assert_true(first > SPLIT_CODE_OTHER && second > SPLIT_CODE_OTHER && first != second);
  assert_int_equal(split_start(0, "first"), first);
  split_end();
  assert_int_equal(total_of(first).count, 2);
  assert_int_equal(total_of(second).count, 1);
  assert_int_equal(atomic_load(&header()->kinds_used), 4);
  int64_t id = 0;
  assert_int_equal(split_get(SPLIT_APP_ID, &id), 0);
  assert_int_equal(id, TEST_APP);
  assert_int_equal(split_get(SPLIT_RELATED_APP_ID, &id), 0);
  assert_int_equal(id, 0xb2);
  assert_int_equal(split_init(0x77, 0, SPLIT_KEY_NUMBER),
                   TEST_APP); /* the second call changes nothing */
}

static void an_end_without_a_start_is_nothing(void **state) {
  (void)state;
  split_end();
  uint32_t code = split_start(0, "k");
  split_end();
  split_end();
  assert_int_equal(total_of(code).count, 1);
}

static void nested_time_is_kept(void **state) {
  (void)state;
  /* Repeated after an interruption. */
  for (int i = 0; i < 1000; i++) {
    char outer_key[16], inner_key[16];
    snprintf(outer_key, sizeof outer_key, "outer %d", i);
    snprintf(inner_key, sizeof inner_key, "inner %d", i);
    uint32_t outer = split_start(0, outer_key);
    int64_t code = 0;
    uint32_t inner = split_start(outer, inner_key);
    split_get(SPLIT_CODE_ID, &code);
    assert_int_equal(code, inner);
    spin(20000);
    split_end();
    split_get(SPLIT_CODE_ID, &code);
    assert_int_equal(code, outer);
    spin(10000);
    split_end();
    struct total o = total_of(outer), n = total_of(inner);
    assert_int_equal(o.count, 1);
    assert_int_equal(n.count, 1);
    if (o.exact && n.exact) {
      assert_true(n.cycles >= 20000);
      assert_int_equal(o.nested, n.cycles);
      assert_true(o.cycles >= n.cycles + 10000);
      return;
    }
    if (!split_process.rseq_works && i > 100) skip();
  }
  fail_msg("no section of a thousand was undisturbed");
}

static void deeper_than_eight_counts_into_the_outer(void **state) {
  (void)state;
  char key[8];
  for (int i = 0; i < 12; i++) {
    snprintf(key, sizeof key, "d%d", i);
    uint32_t code = split_start(0, key);
    if (i < SPLIT_DEPTH)
      assert_true(code > SPLIT_CODE_OTHER);
    else
      assert_int_equal(code, SPLIT_CODE_NONE);
  }
  for (int i = 0; i < 4; i++) split_end(); /* of the four that were too deep */
  int64_t code;
  split_get(SPLIT_CODE_ID, &code);
  assert_int_equal(code, split_kind_of_key(split_mapping_in_use(), "d7", 2));
  for (int i = 0; i < 8; i++) split_end();
  split_get(SPLIT_CODE_ID, &code);
  assert_int_equal(code, SPLIT_CODE_NONE);
  assert_int_equal(atomic_load(&header()->kinds_used), 2 + SPLIT_DEPTH);
  assert_int_equal(total_of((uint32_t)split_start(0, "d7")).count, 1);
}

static void handles_end_in_any_order(void **state) {
  (void)state;
  split_section a, b;
  uint32_t first = split_begin(&a, 0, "a", 1);
  uint32_t second = split_begin(&b, 0, "b", 1);
  uint32_t third = split_start(0, "c");
  split_finish(&a);
  split_end();
  split_finish(&b);
  split_finish(&b); /* again: nothing */
  assert_int_equal(total_of(first).count, 1);
  assert_int_equal(total_of(second).count, 1);
  assert_int_equal(total_of(third).count, 1);
  assert_int_equal(open_sections(), 0);
  uint32_t unused = 0;
  for (const struct split_open *at = split_self_here->unused; at; at = at->outer) unused++;
  assert_int_equal(unused, SPLIT_OPEN);
}

static void a_cancelled_section_is_not_counted(void **state) {
  (void)state;
  split_section section;
  uint32_t code = split_begin(&section, 0, "a", 1);
  split_cancel(&section);
  split_finish(&section);
  assert_int_equal(total_of(code).count, 0);
  assert_int_equal(atomic_load(&header()->dropped), 0);
}

static void memory_that_was_never_a_handle_is_harmless(void **state) {
  (void)state;
  split_section section;
  memset(&section, 0, sizeof section);
  split_finish(&section);
  memset(&section, 0xa5, sizeof section);
  split_finish(&section);
  split_cancel(&section);
  split_pause(&section);
  split_note_section(&section, SPLIT_NOTE_KEY, "x", 1);
  assert_int_equal(atomic_load(&header()->dropped), 0);
}

static void forgotten_handles_are_dropped_when_room_is_needed(void **state) {
  (void)state;
  split_section sections[40];
  for (int i = 0; i < 40; i++) assert_true(split_begin(&sections[i], 0, "leak", 4) != 0);
  assert_int_equal(atomic_load(&header()->dropped), 40 - SPLIT_OPEN);
  split_finish(&sections[0]); /* was dropped */
  uint32_t code = split_begin(&sections[0], 0, "leak", 4);
  split_finish(&sections[39]);
  assert_int_equal(total_of(code).count, 1);
}

static void *finish_elsewhere(void *section) {
  split_finish(section);
  return NULL;
}

static void a_section_that_ends_on_another_thread_is_dropped(void **state) {
  (void)state;
  split_section section;
  uint32_t code = split_begin(&section, 0, "a", 1);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, finish_elsewhere, &section), 0);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&header()->dropped), 1);
  uint32_t next = split_start(0, "b"); /* not within the other */
  assert_int_equal(open_sections(), 1);
  split_end();
  assert_int_equal(total_of(code).count, 0);
  assert_int_equal(total_of(next).count, 1);
}

static void a_late_key(void **state) {
  (void)state;
  split_section section;
  char origin[SPLIT_ORIGIN_LENGTH];
  assert_int_equal(split_begin(&section, 0, NULL, 0), SPLIT_CODE_NONE);
  assert_int_equal(split_origin(origin), 0); /* the application's id is not known yet */
  split_note_section(&section, SPLIT_NOTE_KEY, "late!", 4);
  assert_true(split_origin(origin) > 0);
  split_finish(&section);
  uint32_t code = split_start(0, "late");
  split_end();
  assert_int_equal(total_of(code).count, 2);
  split_start(0, NULL);
  split_note(SPLIT_NOTE_KEY, "late", 4);
  split_end();
  assert_int_equal(total_of(code).count, 3);
  split_start(0, NULL);
  split_end();
  assert_int_equal(total_of(SPLIT_CODE_NONE).count, 1);
}

static void words_for_people_are_kept_once(void **state) {
  (void)state;
  uint32_t code = split_start(0, "label\nwith\x01");
  split_note(SPLIT_NOTE_TEXT, "items,\tusers", 12);
  split_note(SPLIT_NOTE_TEXT, "other", 5);
  split_end();
  const struct split_kind *kind = &split_mapping_in_use()->kinds[code];
  assert_int_equal(kind->label_length, 11);
  assert_memory_equal(kind->label, "label?with?", 11);
  assert_string_equal(kind->note, "items,?users");
  char long_note[200];
  memset(long_note, 'x', sizeof long_note);
  code = split_start(0, "long");
  split_note(SPLIT_NOTE_TEXT, long_note, sizeof long_note);
  split_end();
  assert_int_equal(strlen(split_mapping_in_use()->kinds[code].note), SPLIT_NOTE_LENGTH - 1);
}

static void origins(void **state) {
  (void)state;
  char origin[SPLIT_ORIGIN_LENGTH];
  assert_int_equal(split_origin(origin), 0);
  assert_string_equal(origin, "");
  uint32_t code = split_start(0, "page");
  char expected[32];
  snprintf(expected, sizeof expected, "%x.%x", TEST_APP, code);
  assert_int_equal(split_origin(origin), strlen(expected));
  assert_string_equal(origin, expected);
  split_note(SPLIT_NOTE_ORIGIN, "b2.1f", 5);
  split_end();
  const struct split_kind *kind = &split_mapping_in_use()->kinds[code];
  assert_int_equal(kind->related_app, 0xb2);
  assert_int_equal(kind->related_code, 0x1f);

  static const char *const bad[] = {"",       ".",         "b2",        "b2.",  ".1f",
                                    "b2.1g",  "B2.1f",     "b2.1f ",    "0.1f", "b2.10000",
                                    "b2..1f", "1234567.1", "b2.1234567"};
  split_start(0, "page");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    split_note(SPLIT_NOTE_ORIGIN, bad[i], strlen(bad[i]));
  split_end();
  assert_int_equal(atomic_load(&header()->bad_origins), sizeof bad / sizeof *bad);
  assert_int_equal(kind->related_code, 0x1f);
  split_start(0x33, "page"); /* as in the paper: by the call */
  split_end();
  assert_int_equal(kind->related_app, 0xb2);
  assert_int_equal(kind->related_code, 0x33);
}

static void what_ran_before_on_the_cpu(void **state) {
  (void)state;
  struct split_mapping *mapping = split_mapping_in_use();
  uint32_t a = split_start(0, "a");
  split_end();
  uint32_t b = split_start(0, "b");
  split_end();
  atomic_store(&mapping->decisions[a].class_, SPLIT_CLASS_POLLUTER);
  uint64_t after_polluter = 0, after_same = 0;
  for (int i = 0; i < 100; i++) {
    split_start(0, "a");
    split_end();
    split_start(0, "b"); /* after a polluter */
    split_end();
    split_start(0, "b"); /* after its own kind */
    split_end();
  }
  uint64_t all = 0;
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
    const struct split_record *record = split_record_of(mapping, cpu, b);
    after_polluter += record->after[SPLIT_CLASS_POLLUTER].count;
    after_same += record->after[SPLIT_AFTER_SAME].count;
    for (int i = 0; i < SPLIT_AFTERS; i++) all += record->after[i].count;
  }
  if (!split_process.rseq_works) skip();
  assert_true(all <= 201);
  assert_in_range(after_polluter, 50, 100); /* few are disturbed */
  assert_in_range(after_same, 50, 100);
}

static void settings(void **state) {
  (void)state;
  int64_t number = 50;
  double weight = 0.5;
  assert_int_equal(split_set(SPLIT_THRESHOLD, &number), 0);
  assert_int_equal(split_set(SPLIT_WEIGHT, &weight), 0);
  number = 0;
  weight = 0;
  assert_int_equal(split_get(SPLIT_THRESHOLD, &number), 0);
  assert_int_equal(split_get(SPLIT_WEIGHT, &weight), 0);
  assert_int_equal(number, 50);
  assert_true(weight == 0.5);
  weight = 1.5;
  assert_int_equal(split_set(SPLIT_WEIGHT, &weight), -1);
  number = -1;
  assert_int_equal(split_set(SPLIT_THRESHOLD, &number), -1);
  number = 64;
  assert_int_equal(split_set(SPLIT_HASH_SIZE, &number), -1); /* too late */
  assert_int_equal(split_set(SPLIT_APP_ID, &number), -1);
  assert_int_equal(split_set((enum split_setting)77, &number), -1);
  assert_int_equal(split_get((enum split_setting)77, &number), -1);
  assert_int_equal(split_get(SPLIT_ANALYSIS_INTERVAL, &number), 0);
  assert_int_equal(number, 1000);
}

static void collecting_can_be_switched_off_and_on(void **state) {
  (void)state;
  int64_t off = 0, on = 1;
  uint32_t code = split_start(0, "outer");
  split_set(SPLIT_COLLECT, &off);
  assert_int_equal(split_start(0, "inner"), SPLIT_CODE_NONE);
  split_set(SPLIT_COLLECT, &on);
  split_end(); /* of the inner one, which was not opened */
  assert_int_equal(open_sections(), 1);
  split_end();
  assert_int_equal(total_of(code).count, 1);
  split_start(0, "outer");
  split_set(SPLIT_COLLECT, &off);
  split_end();
  assert_int_equal(total_of(code).count, 1);
}

static void errno_stays(void **state) {
  (void)state;
  errno = 4711;
  split_section section;
  split_begin(&section, 0, NULL, 0);
  split_note_section(&section, SPLIT_NOTE_KEY, "new", 3);
  split_finish(&section);
  split_release_stale();
  assert_int_equal(errno, 4711);
}

static void traces(void **state) {
  (void)state;
  struct split_mapping *mapping = split_mapping_in_use();
  atomic_store(&header()->trace_every, 1);
  uint32_t a = split_start(0, "a");
  split_end();
  for (int i = 0; i < 2000; i++) {
    split_start(0, "b");
    split_end();
  }
  uint64_t written = 0, of_a = 0;
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
    written += atomic_load(&mapping->cpus[cpu].traced);
    for (uint32_t i = 0; i < SPLIT_TRACES; i++) {
      const struct split_trace *entry = &mapping->traces[cpu * SPLIT_TRACES + i];
      if (atomic_load(&entry->ended_tsc) == 0) continue;
      of_a += entry->code == a;
      assert_int_equal(entry->displaced, UINT16_MAX);
      assert_true(entry->previous_app == 0 || entry->previous_app == TEST_APP);
    }
  }
  assert_int_equal(written, 2001);
  assert_true(of_a <= 1); /* the ring wrapped around, unless two CPUs shared the work */
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_with_text, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(the_five_calls),
      IN(an_end_without_a_start_is_nothing),
      IN(nested_time_is_kept),
      IN(deeper_than_eight_counts_into_the_outer),
      IN(handles_end_in_any_order),
      IN(a_cancelled_section_is_not_counted),
      IN(memory_that_was_never_a_handle_is_harmless),
      IN(forgotten_handles_are_dropped_when_room_is_needed),
      IN(a_section_that_ends_on_another_thread_is_dropped),
      IN(a_late_key),
      IN(words_for_people_are_kept_once),
      IN(origins),
      IN(what_ran_before_on_the_cpu),
      IN(settings),
      IN(collecting_can_be_switched_off_and_on),
      IN(errno_stays),
      IN(traces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
