/*
 * The PHP extension `split`: identifies the request of this process.
 *
 *   - In FPM, and on request on the command line, PHP is a separate application: each request is a
 *     section whose kind is the script, and whose origin is the web server's SPLIT_CODE_ID.
 *   - Under mod_php the request is a section of mod_split already: the extension only has its id.
 *
 * Database extensions and scripts (split_code_id()) use the id.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php_split.h"

#include "comment.h"
#include "split.h"

#include <SAPI.h>
#include <ext/standard/info.h>
#include <php_ini.h>

#include <stdlib.h>
#include <string.h>

ZEND_BEGIN_MODULE_GLOBALS(split)
bool engine;
bool cli;
char *directory;
char *name;
zend_long app_id;

/* Of the request. */
bool in_request, has_section, knows_comment;
char id[SPLIT_ORIGIN_LENGTH];
char comment[COMMENT_MOST];
size_t comment_length;
struct comment_turns turns; /* random numbers per process */
split_section section;
ZEND_END_MODULE_GLOBALS(split)

ZEND_DECLARE_MODULE_GLOBALS(split)
#define SPLIT_G(field) ZEND_MODULE_GLOBALS_ACCESSOR(split, field)
#if defined(ZTS) && defined(COMPILE_DL_SPLIT)
ZEND_TSRMLS_CACHE_DEFINE()
#endif

/* Whether requests of this process are sections of their own. Set at the start of the process. */
static bool has_sections;

PHP_INI_BEGIN()
STD_PHP_INI_BOOLEAN("split.engine", "1", PHP_INI_SYSTEM, OnUpdateBool, engine, zend_split_globals,
                    split_globals)
STD_PHP_INI_BOOLEAN("split.cli", "0", PHP_INI_SYSTEM, OnUpdateBool, cli, zend_split_globals,
                    split_globals)
STD_PHP_INI_ENTRY("split.directory", "", PHP_INI_SYSTEM, OnUpdateString, directory,
                  zend_split_globals, split_globals)
STD_PHP_INI_ENTRY("split.name", "php", PHP_INI_SYSTEM, OnUpdateString, name, zend_split_globals,
                  split_globals)
STD_PHP_INI_ENTRY("split.app_id", "0", PHP_INI_SYSTEM, OnUpdateLongGEZero, app_id,
                  zend_split_globals, split_globals)
PHP_INI_END()

/* --- The id ---------------------------------------------------------------------------------------------------------------------- */

/* The id from the web server: SPLIT_CODE_ID of its environment (mod_php), of the FastCGI request
 * (FPM), else of the process. */
static size_t given_id(char id[SPLIT_ORIGIN_LENGTH]) {
  size_t length = 0;
  char *of_server = sapi_getenv(ZEND_STRL("SPLIT_CODE_ID"));
  const char *given = of_server;
  if (!sapi_module.getenv) given = getenv("SPLIT_CODE_ID");
  if (given) {
    char ignored[COMMENT_MOST];
    size_t given_length = strnlen(given, SPLIT_ORIGIN_LENGTH);
    if (given_length < SPLIT_ORIGIN_LENGTH && comment_make(given, given_length, ignored) > 0) {
      memcpy(id, given, given_length);
      length = given_length;
    }
  }
  if (of_server) efree(of_server);
  id[length] = '\0';
  return length;
}

/* The kind of this request as the web server names it (SPLIT_KIND), if that is this script with the page that was asked for; else the
 * script. A client cannot give it: its headers have other names. */
static char *given_kind(const char *script) {
  char *kind = sapi_getenv(ZEND_STRL("SPLIT_KIND"));
  const size_t length = strlen(script);
  if (kind && strncmp(kind, script, length) == 0 && kind[length] == ' ') return kind;
  if (kind) efree(kind);
  return NULL;
}

/* The id of the request's first tier; without one, that of this process's section. Determined
 * once per request, at its first statement. */
static void know_comment(void) {
  SPLIT_G(knows_comment) = true;
  SPLIT_G(comment_length) = 0;
  size_t length = given_id(SPLIT_G(id));
  if (length == 0 && SPLIT_G(has_section)) length = split_origin(SPLIT_G(id));
  SPLIT_G(comment_length) = comment_make(SPLIT_G(id), length, SPLIT_G(comment));
}

__attribute__((noinline)) static zend_string *commented(const char *statement, size_t length) {
  const size_t added = SPLIT_G(comment_length);
  size_t place;
  if (!comment_place(statement, length, &place)) return NULL;
  zend_string *made = zend_string_alloc(length + added, 0);
  char *text = ZSTR_VAL(made);
  memcpy(text, statement, place);
  memcpy(text + place, SPLIT_G(comment), added);
  memcpy(text + place + added, statement + place, length - place);
  text[length + added] = '\0';
  return made;
}

/* Most statements of a page that sends thousands get no further than here. */
PHPAPI zend_string *php_split_commented(const char *statement, size_t length,
                                        enum php_split_use use) {
  if (!SPLIT_G(in_request)) return NULL;
  if (!SPLIT_G(knows_comment)) know_comment();
  if (SPLIT_G(comment_length) == 0 || (use == PHP_SPLIT_ONCE && !comment_turn(&SPLIT_G(turns))))
    return NULL;
  return commented(statement, length);
}

/* --- The request ----------------------------------------------------------------------------------------------------------------- */

static PHP_RINIT_FUNCTION(split) {
#if defined(ZTS) && defined(COMPILE_DL_SPLIT)
  ZEND_TSRMLS_CACHE_UPDATE();
#endif
  SPLIT_G(in_request) = SPLIT_G(engine);
  SPLIT_G(knows_comment) = SPLIT_G(has_section) = false;
  SPLIT_G(id)[0] = '\0';
  comment_turns_begin(&SPLIT_G(turns));
  const char *script = SG(request_info).path_translated;
  if (has_sections && script) {
    char origin[SPLIT_ORIGIN_LENGTH];
    size_t length = given_id(origin);
    char *kind = given_kind(script);
    const char *key = kind ? kind : script;
    split_begin(&SPLIT_G(section), SPLIT_CODE_NONE, key, strnlen(key, SPLIT_KEY_LENGTH));
    if (kind) efree(kind);
    if (length > 0) split_note_section(&SPLIT_G(section), SPLIT_NOTE_ORIGIN, origin, length);
    SPLIT_G(has_section) = true;
  }
  return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(split) {
  if (SPLIT_G(has_section)) split_finish(&SPLIT_G(section));
  SPLIT_G(has_section) = SPLIT_G(in_request) = false;
  return SUCCESS;
}

/* --- The process ----------------------------------------------------------------------------------------------------------------- */

/* The id of applications of this name: FNV-1a, folded to the 24 bits of an id. Not from the
 * program's name, as in libsplit: php, php8.2 and php-fpm8.2 are one application unless
 * split.name distinguishes them. */
static split_app_id id_of_name(const char *name) {
  uint32_t hash = UINT32_C(2166136261);
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT32_C(16777619);
  split_app_id id = (hash >> 24 ^ hash) & 0xffffff;
  return id ? id : 1;
}

/* In the parent of FPM's children, as the user who started it: children inherit open files. */
static bool wants_sections(void) {
  const char *sapi = sapi_module.name;
  if (!SPLIT_G(engine)) return false;
  if (!strcmp(sapi, "fpm-fcgi") || !strcmp(sapi, "cgi-fcgi")) return true;
  return SPLIT_G(cli) && (!strcmp(sapi, "cli") || !strcmp(sapi, "cli-server"));
}

static PHP_MINIT_FUNCTION(split) {
  (void)type;
  REGISTER_INI_ENTRIES();
  if (!wants_sections()) return SUCCESS;
  const char *directory = SPLIT_G(directory), *name = SPLIT_G(name);
  if (directory && *directory) split_configure(directory);
  if (!name || !*name) name = "php";
  split_app_id id = SPLIT_G(app_id) ? (split_app_id)SPLIT_G(app_id) : id_of_name(name);
  has_sections = split_init_named(name, id, 0, SPLIT_KEY_TEXT) != 0;
  /* A server logs the reason once; a command keeps its output clean. */
  if (*split_problem() && strcmp(sapi_module.name, "cli") != 0) {
    char line[256];
    snprintf(line, sizeof line, "split: %s", split_problem());
    php_log_err_with_severity(line, LOG_NOTICE);
  }
  return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(split) {
  (void)type;
  if (has_sections) split_close();
  UNREGISTER_INI_ENTRIES();
  return SUCCESS;
}

static PHP_MINFO_FUNCTION(split) {
  (void)zend_module;
  php_info_print_table_start();
  php_info_print_table_row(2, "SPLiT", SPLIT_G(engine) ? "enabled" : "disabled");
  php_info_print_table_row(2, "its own sections", has_sections ? "yes" : "no");
  php_info_print_table_row(2, "library", split_version());
  if (*split_problem()) php_info_print_table_row(2, "problem", split_problem());
  php_info_print_table_end();
  DISPLAY_INI_ENTRIES();
}

static PHP_GINIT_FUNCTION(split) {
#if defined(ZTS) && defined(COMPILE_DL_SPLIT)
  ZEND_TSRMLS_CACHE_UPDATE();
#endif
  memset(split_globals, 0, sizeof *split_globals);
}

/* The id of this request, for statements that no extension handles; "" if there is none. */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arguments_of_split_code_id, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

static PHP_FUNCTION(split_code_id) {
  ZEND_PARSE_PARAMETERS_NONE();
  if (!SPLIT_G(in_request)) RETURN_EMPTY_STRING();
  if (!SPLIT_G(knows_comment)) know_comment();
  RETURN_STRING(SPLIT_G(id));
}

static const zend_function_entry functions[] = {PHP_FE(split_code_id, arguments_of_split_code_id)
                                                    PHP_FE_END};

zend_module_entry split_module_entry = {STANDARD_MODULE_HEADER,
                                        "split",
                                        functions,
                                        PHP_MINIT(split),
                                        PHP_MSHUTDOWN(split),
                                        PHP_RINIT(split),
                                        PHP_RSHUTDOWN(split),
                                        PHP_MINFO(split),
                                        PHP_SPLIT_VERSION,
                                        PHP_MODULE_GLOBALS(split),
                                        PHP_GINIT(split),
                                        NULL,
                                        NULL,
                                        STANDARD_MODULE_PROPERTIES_EX};

ZEND_GET_MODULE(split)
