/* Checksums and checks of pages. page.h has the format and the invariants. */
#include "page.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <string.h>

uint32_t p3l_crc32c(uint32_t seed, const void *bytes, size_t length) {
  /* ISA-L inverts the CRC neither before nor after, and does not write to the buffer although
   * the parameter is not const. */
  uint32_t crc = ~seed;
  unsigned char *at = (unsigned char *)(uintptr_t)bytes;
  while (length > 0) {
    int part = length > INT_MAX ? INT_MAX : (int)length;
    crc = crc32_iscsi(at, part, crc);
    at += part;
    length -= (size_t)part;
  }
  return ~crc;
}

static uint32_t page_checksum(const p3l_page *page) {
  return p3l_crc32c(0, (const uint8_t *)page + sizeof(page->checksum),
                    sizeof(*page) - sizeof(page->checksum));
}

void p3l_page_init(p3l_page *page, p3l_page_kind kind, p3l_page_number number) {
  memset(page, 0, sizeof(*page));
  page->kind = (uint16_t)kind;
  page->number = number.n;
}

void p3l_page_seal(p3l_page *page, p3l_lsn checkpoint) {
  page->checkpoint = checkpoint.byte;
  page->checksum = page_checksum(page);
}

const char *p3l_page_fault(const p3l_page *page, p3l_page_number number) {
  if (page->checksum != page_checksum(page))
    return "does not have the checksum that it was written with";
  return p3l_page_head_fault(page, number);
}

const char *p3l_page_head_fault(const p3l_page *page, p3l_page_number number) {
  if (page->number != number.n) return "is another page that was written to the wrong place";
  if (page->kind < P3L_PAGE_HEADER || page->kind > P3L_PAGE_DATA ||
      page->generation >= (number.n == 0 ? 1 : P3L_GENERATIONS))
    return "is of no known kind";
  if ((page->kind == P3L_PAGE_HEADER) != (number.n == 0))
    return "is of a kind that does not belong there";
  return NULL;
}

void p3l_header_init(p3l_page *page, const uint8_t store_id[16]) {
  p3l_page_init(page, P3L_PAGE_HEADER, (p3l_page_number){0});
  p3l_header *header = p3l_header_of(page);
  memcpy(header->magic, P3L_MAGIC, sizeof(header->magic));
  header->version = P3L_FORMAT_VERSION;
  header->byte_order = P3L_BYTE_ORDER;
  header->page_size = P3L_PAGE_SIZE;
  header->pointer_size = sizeof(void *);
  memcpy(header->store_id, store_id, sizeof(header->store_id));
  header->page_count = 1;
}

p3l_code p3l_header_check(const p3l_page *page, const char *path, p3l_error *error) {
  const p3l_header *header = (const p3l_header *)page->payload;
  /* The order of the checks determines the message: a foreign file is not reported as "corrupt",
   * and another version not as a wrong checksum. */
  if (memcmp(header->magic, P3L_MAGIC, sizeof(header->magic)) != 0)
    return p3l_fail(error, P3L_NOT_A_STORE,
                    "%s is not a P3L store: its first bytes are not those of a store", path);
  if (header->byte_order != P3L_BYTE_ORDER || header->pointer_size != sizeof(void *))
    return p3l_fail(error, P3L_WRONG_MACHINE,
                    "%s was made on a machine with another byte order or pointer size; open it on "
                    "such a machine and "
                    "copy its objects",
                    path);
  if (header->version < P3L_OLDEST_VERSION || header->version > P3L_FORMAT_VERSION)
    return p3l_fail(error, P3L_WRONG_VERSION,
                    "%s has version %u of the format, this library knows versions %u to %u", path,
                    header->version, P3L_OLDEST_VERSION, P3L_FORMAT_VERSION);
  if (header->page_size != P3L_PAGE_SIZE)
    return p3l_fail(error, P3L_WRONG_MACHINE,
                    "%s has pages of %u bytes, this library was built for %u", path,
                    header->page_size, P3L_PAGE_SIZE);
  const char *fault = p3l_page_fault(page, (p3l_page_number){0});
  if (fault != NULL)
    return p3l_fail(error, P3L_CORRUPT, "%s: the header page %s; restore the file from a copy",
                    path, fault);
  if (header->page_count == 0 || header->page_count > UINT64_C(1) << (P3L_ADDRESS_BITS - 12) ||
      header->free_count >= header->page_count || header->first_free >= header->page_count)
    return p3l_fail(error, P3L_CORRUPT, "%s: the header page counts pages that cannot be", path);
  return P3L_OK;
}
