/* Reads and checks every page of a store and follows the free list. */
#include <stdio.h>
#include <stdlib.h>

#include "images.h"

typedef struct listening {
  void (*listener)(void *, const char *);
  void *state;
  p3l_verification *verification;
} listening;

static void tell(listening *to, const char *sentence) {
  to->verification->faults++;
  if (to->listener != NULL) to->listener(to->state, sentence);
}

/*
 * Marks the pages of the free list in `on_list`. A page met twice ends the walk, so that it also
 * ends for damaged lists.
 */
static void follow_free_list(p3l_pager *pager, const p3l_header *header, uint8_t *on_list,
                             listening *to) {
  p3l_page page;
  p3l_error error;
  uint64_t length = 0;
  char sentence[160];
  for (uint64_t number = header->first_free; number != 0; number = page.next) {
    if (number >= header->page_count || (on_list[number / 8] & 1u << number % 8)) {
      snprintf(sentence, sizeof(sentence), "the list of free pages leads to page %llu, %s",
               (unsigned long long)number,
               number >= header->page_count ? "which does not exist" : "a second time");
      tell(to, sentence);
      break;
    }
    on_list[number / 8] |= (uint8_t)(1u << number % 8);
    length++;
    /* Unreadable pages are reported later, when all pages are read. */
    if (p3l_pager_read(pager, (p3l_page_number){number}, &page, &error) != P3L_OK) return;
    if (page.kind != P3L_PAGE_FREE) {
      snprintf(sentence, sizeof(sentence), "page %llu is on the list of free pages and is not free",
               (unsigned long long)number);
      tell(to, sentence);
      return;
    }
  }
  if (length != header->free_count) {
    snprintf(sentence, sizeof(sentence),
             "the list of free pages has %llu pages, the header page says %llu",
             (unsigned long long)length, (unsigned long long)header->free_count);
    tell(to, sentence);
  }
}

p3l_code p3l_pager_check_size(p3l_pager *pager, p3l_error *error) {
  uint64_t size = 0, count = p3l_pager_page_count(pager);
  int failed = pager->file->size(pager->file, &size);
  if (failed != 0) return p3l_fail_errno(error, failed, "%s: asking for its size", pager->path);
  pthread_rwlock_rdlock(&pager->readers);
  uint64_t possible = size / P3L_PAGE_SIZE + HASH_COUNT(pager->images) + 1;
  pthread_rwlock_unlock(&pager->readers);
  if (count <= possible) return P3L_OK;
  return p3l_fail(error, P3L_CORRUPT,
                  "%s counts %llu pages and has room for %llu; restore it from a copy", pager->path,
                  (unsigned long long)count, (unsigned long long)possible);
}

p3l_code p3l_pager_verify(p3l_pager *pager, void (*listener)(void *, const char *), void *state,
                          p3l_verification *verification, p3l_error *error) {
  return p3l_pager_verify_watched(pager, listener, NULL, state, verification, error);
}

p3l_code p3l_pager_verify_watched(p3l_pager *pager, void (*listener)(void *, const char *),
                                  void (*progress)(void *, const char *, uint64_t, uint64_t),
                                  void *state, p3l_verification *verification, p3l_error *error) {
  p3l_page zero, page;
  listening to = {listener, state, verification};
  *verification = (p3l_verification){0};
  p3l_code code = p3l_pager_read(pager, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  const p3l_header *header = p3l_header_of(&zero);
  code = p3l_pager_check_size(pager, error);
  if (code != P3L_OK) return code;
  uint8_t *on_list = calloc(1, header->page_count / 8 + 1);
  if (on_list == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to verify it", pager->path);
  follow_free_list(pager, header, on_list, &to);
  for (uint64_t number = 0; number < header->page_count && code == P3L_OK; number++) {
    p3l_error fault;
    char sentence[160];
    verification->pages++;
    if (progress != NULL && number % 256 == 0)
      progress(state, "checksums", number, header->page_count);
    code = p3l_pager_read(pager, (p3l_page_number){number}, &page, &fault);
    if (code == P3L_CORRUPT) {
      tell(&to, fault.message);
      code = P3L_OK;
      continue;
    }
    if (code != P3L_OK) {
      if (error != NULL) *error = fault;
      break;
    }
    bool listed = on_list[number / 8] & 1u << number % 8;
    verification->data_pages += page.kind == P3L_PAGE_DATA;
    verification->free_pages += page.kind == P3L_PAGE_FREE;
    if (page.kind == P3L_PAGE_FREE && !listed) {
      snprintf(sentence, sizeof(sentence), "page %llu is free and on no list",
               (unsigned long long)number);
      tell(&to, sentence);
    }
  }
  free(on_list);
  return code;
}
