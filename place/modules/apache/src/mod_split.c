/*
 * mod_split: SPLiT in Apache 2.4, any MPM. Reports to libsplit when a thread begins and ends its
 * work on a request, and the request's kind; passes the kind to the next tier.
 *
 *   post_read_request   the request is read: its section begins
 *   fixups              its file is known, and by that its kind; the kind's id, and of an entry script its page, go into the environment
 *                       (mod_php, FastCGI, CGI)
 *   output filter       the last bucket of the response (EOR) has passed: the section ends. This is always on the request's thread;
 *                       log_transaction is not (event MPM with sendfile: seconds later, on another one)
 *
 * A section that was not ended by these is dropped when its connection leaves the thread, or when
 * the thread begins its next request.
 */
#include "keys.h"
#include "pages.h"
#include "request_section.h"
#include "settings.h"

#include "split.h"

#include <apr_strings.h>
#include <ap_mpm.h>
#include <http_connection.h>
#include <http_core.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>
#include <httpd.h>
#include <mpm_common.h>
#include <util_filter.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

APLOG_USE_MODULE(split);

#define HEADER "split-id"
#define VARIABLE "SPLIT_CODE_ID"
#define KIND_VARIABLE "SPLIT_KIND"
#define FILTER "SPLIT_END_OF_REQUEST"

/* Set in the parent before children are forked, constant afterwards. */
static ap_filter_rec_t *output_filter;
static server_rec *main_server;
static bool active;
static struct pages *pages; /* shared by all processes; NULL: there was no memory */

/* Logs the library's message once per process, and again if it changes. */
static void log_problem(void) {
  static atomic_flag busy = ATOMIC_FLAG_INIT;
  static char said[256];
  const char *problem = split_problem();
  if (*problem == '\0' || atomic_flag_test_and_set(&busy)) return;
  if (strncmp(said, problem, sizeof said - 1) != 0) {
    apr_cpystrn(said, problem, sizeof said);
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, main_server, "split: %s", said);
  }
  atomic_flag_clear(&busy);
}

/* Some problems occur during work: the table of kinds is full. */
static void look_for_problems(void) {
  static _Thread_local unsigned requests;
  if (++requests % 256 == 0) log_problem();
}

/* --- The kind of a request ----------------------------------------------------------------------------------------------------- */

/* Hosts share the application's kinds: the host's name distinguishes equal paths. */
static const char *of_host(const request_rec *r, const char *path) {
  if (!r->server->is_virtual) return path;
  return apr_pstrcat(r->pool, r->server->server_hostname, path, NULL);
}

static const char *pattern_of(const request_rec *r) {
  char pattern[SPLIT_KEY_LENGTH];
  key_pattern(r->uri, pattern, sizeof pattern);
  return of_host(r, apr_pstrdup(r->pool, pattern));
}

/* No file or handler exists: the answer will be 404. Random addresses must not fill the table of
 * kinds. */
static bool will_not_be_found(const request_rec *r) {
  return r->finfo.filetype == APR_NOFILE && !r->handler && !r->proxyreq;
}

static const request_rec *first_of(const request_rec *r) {
  while (r->prev) r = r->prev;
  return r;
}

/* The file that answers; if it is a script to which other addresses lead, with the page that was asked for. An error's page is the same
 * for every address. */
static const char *script_of(const request_rec *r) {
  const request_rec *first = first_of(r);
  const char *path = first->parsed_uri.path;
  if (!pages || !r->handler || !path || r->method_number == M_CONNECT) return r->filename;
  if ((r->prev && r->prev->status >= 400) || !key_is_entry(path, r->filename)) return r->filename;
  char page[SPLIT_KEY_LENGTH];
  pages_page(pages, path, first->parsed_uri.query, page, sizeof page);
  if (strcmp(page, "/") == 0) return r->filename;
  return apr_pstrcat(r->pool, r->filename, " ", page, NULL);
}

/* The key before the handler runs. NULL: it depends on the answer. */
static const char *early_key(const request_rec *r) {
  if (will_not_be_found(r)) return NULL;
  switch (settings_of(r->server)->host.key) {
    case KEY_URL: return of_host(r, r->uri);
    case KEY_PATTERN: return pattern_of(r);
    default:
      /* An address of a handler or a proxy has no file, and may turn out not to exist. */
      return r->finfo.filetype == APR_NOFILE || r->proxyreq ? NULL : script_of(r);
  }
}

/* When the answer is known. */
static const char *late_key(const request_rec *r) {
  while (r->next) r = r->next;
  if (r->status >= 400) return apr_psprintf(r->pool, "(%d)", r->status);
  return pattern_of(r);
}

/* --- The way of a request ------------------------------------------------------------------------------------------------------ */

static int on_post_read_request(request_rec *r) {
  const struct host_settings *settings = &settings_of(r->server)->host;
  if (r->main || r->prev || settings->engine != ON) return DECLINED;
  const char *origin = apr_table_get(r->headers_in, HEADER);
  if (origin) {
    section_begin(r, settings->trust_header == ON ? apr_pstrdup(r->pool, origin) : NULL);
    apr_table_unset(r->headers_in, HEADER);
  } else {
    section_begin(r, NULL);
  }
  return DECLINED;
}

static int on_fixups(request_rec *r) {
  if (r->main || !section_is_of(first_of(r))) return DECLINED;
  const char *key = early_key(r);
  if (!key) return DECLINED;
  section_set_kind(key);
  char id[SPLIT_ORIGIN_LENGTH];
  if (split_origin(id) > 0)
    apr_table_setn(r->subprocess_env, VARIABLE, apr_pstrdup(r->pool, id));
  else
    apr_table_unset(r->subprocess_env, VARIABLE);
  /* Each variable costs PHP time, and a script's own name it knows. */
  if (key != r->filename) apr_table_setn(r->subprocess_env, KIND_VARIABLE, key);
  return DECLINED;
}

static apr_status_t on_output(ap_filter_t *filter, apr_bucket_brigade *brigade) {
  if (!section_is_on(filter->c)) return ap_pass_brigade(filter->next, brigade);
  bool last = false;
  for (apr_bucket *bucket = APR_BRIGADE_FIRST(brigade); bucket != APR_BRIGADE_SENTINEL(brigade);
       bucket = APR_BUCKET_NEXT(bucket)) {
    if (AP_BUCKET_IS_EOR(bucket))
      last = true;
    else if (!APR_BUCKET_IS_METADATA(bucket))
      section_sends(bucket->length == (apr_size_t)-1 ? SECTION_BYTES_UNKNOWN
                                                     : (apr_off_t)bucket->length);
  }
  if (last && !section_has_kind()) {
    /* The request exists until its bucket is passed on. */
    request_rec *r = section_request();
    section_set_kind(late_key(r));
  }
  apr_status_t status = ap_pass_brigade(filter->next, brigade);
  if (last) section_end();
  return status;
}

/* Ends a request that the filter did not see. */
static int on_log_transaction(request_rec *r) {
  if (section_is_of(r)) {
    if (!section_has_kind()) section_set_kind(late_key(r));
    section_end();
  }
  look_for_problems();
  return DECLINED;
}

/* The connection leaves this thread (event MPM) or ends: its request has ended, or continues on
 * another thread. */
static void on_suspend_connection(conn_rec *c, request_rec *r) {
  (void)r;
  if (section_is_on(c)) section_end();
}

static int on_pre_close_connection(conn_rec *c) {
  if (section_is_on(c)) section_end();
  return OK;
}

static int on_pre_connection(conn_rec *c, void *socket) {
  (void)socket;
  if (active) ap_add_output_filter_handle(output_filter, NULL, NULL, c);
  return OK;
}

/* --- Start and end of the server --- */

static apr_status_t close_library(void *unused) {
  (void)unused;
  split_close();
  return APR_SUCCESS;
}

static apr_status_t forget_pages(void *mapped) {
  munmap(mapped, sizeof *pages);
  return APR_SUCCESS;
}

/* Before children are forked. Children of a graceful restart keep the memory that they have. */
static void make_pages(apr_pool_t *pool) {
  void *mapped =
      mmap(NULL, sizeof *pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pages = mapped == MAP_FAILED ? NULL : mapped;
  if (pages) apr_pool_cleanup_register(pool, pages, forget_pages, apr_pool_cleanup_null);
}

static int on_post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s) {
  (void)plog, (void)ptemp;
  main_server = s;
  active = settings_engine_anywhere(s);
  /* A configuration is read twice, or only to be checked: create no segment in these cases. */
  if (!active || ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG ||
      ap_state_query(AP_SQ_RUN_MODE) == AP_SQ_RM_CONFIG_TEST)
    return OK;
  make_pages(pconf);
  const struct server_settings *settings = &settings_of(s)->server;
  if (settings->directory) split_configure(settings->directory);
  if (settings->kinds) split_set(SPLIT_HASH_SIZE, &settings->kinds);
  split_init_named(settings->name ? settings->name : "web", settings->app_id, 0, SPLIT_KEY_TEXT);
  /* Only in the parent: children exit without running this pool's cleanups. */
  apr_pool_cleanup_register(pconf, NULL, close_library, apr_pool_cleanup_null);
  log_problem();
  return OK;
}

static void register_hooks(apr_pool_t *pool) {
  (void)pool;
  output_filter =
      ap_register_output_filter(FILTER, on_output, NULL, (ap_filter_type)AP_FTYPE_CONNECTION);
  ap_hook_post_config(on_post_config, NULL, NULL, APR_HOOK_MIDDLE);
  ap_hook_pre_connection(on_pre_connection, NULL, NULL, APR_HOOK_MIDDLE);
  ap_hook_post_read_request(on_post_read_request, NULL, NULL, APR_HOOK_REALLY_FIRST);
  /* After mod_dir, which makes / to /index.php. */
  ap_hook_fixups(on_fixups, NULL, NULL, APR_HOOK_REALLY_LAST);
  ap_hook_log_transaction(on_log_transaction, NULL, NULL, APR_HOOK_REALLY_LAST);
  ap_hook_suspend_connection(on_suspend_connection, NULL, NULL, APR_HOOK_FIRST);
  ap_hook_pre_close_connection(on_pre_close_connection, NULL, NULL, APR_HOOK_FIRST);
}

/* clang-format off */
module AP_MODULE_DECLARE_DATA split_module = {
    STANDARD20_MODULE_STUFF,
    NULL, /* nothing of folders ... */
    NULL,
    settings_create, /* ... but of hosts */
    settings_merge,
    settings_directives,
    register_hooks,
    AP_MODULE_FLAG_NONE
};
/* clang-format on */
