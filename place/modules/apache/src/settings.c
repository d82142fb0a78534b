#include "settings.h"

#include <apr_strings.h>
#include <http_core.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { APP_ID_MOST = (1 << 24) - 1, KINDS_MOST = 65536, NAME_MOST = 31 };

void *settings_create(apr_pool_t *pool, server_rec *server) {
  (void)server;
  return apr_pcalloc(pool, sizeof(struct settings));
}

void *settings_merge(apr_pool_t *pool, void *base, void *host) {
  const struct settings *of_base = base, *of_host = host;
  struct settings *merged = apr_pmemdup(pool, of_base, sizeof *merged);
  if (of_host->host.engine) merged->host.engine = of_host->host.engine;
  if (of_host->host.trust_header) merged->host.trust_header = of_host->host.trust_header;
  if (of_host->host.key) merged->host.key = of_host->host.key;
  return merged;
}

const struct settings *settings_of(const server_rec *server) {
  return ap_get_module_config(server->module_config, &split_module);
}

bool settings_engine_anywhere(const server_rec *main_server) {
  for (const server_rec *server = main_server; server; server = server->next)
    if (settings_of(server)->host.engine == ON) return true;
  return false;
}

static struct settings *changed_by(cmd_parms *command) {
  return ap_get_module_config(command->server->module_config, &split_module);
}

static const char *set_engine(cmd_parms *command, void *unused, int on) {
  (void)unused;
  changed_by(command)->host.engine = on ? ON : OFF;
  return NULL;
}

static const char *set_trust_header(cmd_parms *command, void *unused, int on) {
  (void)unused;
  changed_by(command)->host.trust_header = on ? ON : OFF;
  return NULL;
}

static const char *set_key(cmd_parms *command, void *unused, const char *word) {
  (void)unused;
  enum key_choice *key = &changed_by(command)->host.key;
  if (!strcasecmp(word, "script"))
    *key = KEY_SCRIPT;
  else if (!strcasecmp(word, "url"))
    *key = KEY_URL;
  else if (!strcasecmp(word, "pattern"))
    *key = KEY_PATTERN;
  else
    return "SplitKey must be one of: script url pattern";
  return NULL;
}

static const char *set_directory(cmd_parms *command, void *unused, const char *path) {
  (void)unused;
  const char *error = ap_check_cmd_context(command, GLOBAL_ONLY);
  if (error) return error;
  changed_by(command)->server.directory = ap_server_root_relative(command->pool, path);
  return changed_by(command)->server.directory ? NULL : "SplitDirectory is not a valid path";
}

static const char *set_name(cmd_parms *command, void *unused, const char *name) {
  (void)unused;
  const char *error = ap_check_cmd_context(command, GLOBAL_ONLY);
  if (error) return error;
  if (*name == '\0' || strlen(name) > NAME_MOST) return "SplitName must have 1 to 31 bytes";
  changed_by(command)->server.name = name;
  return NULL;
}

static bool parse_number(const char *text, long most, long *number) {
  char *end;
  errno = 0;
  *number = strtol(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && *number >= 1 && *number <= most;
}

static const char *set_app_id(cmd_parms *command, void *unused, const char *text) {
  (void)unused;
  long number;
  const char *error = ap_check_cmd_context(command, GLOBAL_ONLY);
  if (error) return error;
  if (!parse_number(text, APP_ID_MOST, &number))
    return "SplitAppId must be a number from 1 to 16777215";
  changed_by(command)->server.app_id = (uint32_t)number;
  return NULL;
}

static const char *set_kinds(cmd_parms *command, void *unused, const char *text) {
  (void)unused;
  long number;
  const char *error = ap_check_cmd_context(command, GLOBAL_ONLY);
  if (error) return error;
  if (!parse_number(text, KINDS_MOST, &number))
    return "SplitKinds must be a number from 1 to 65536";
  changed_by(command)->server.kinds = number;
  return NULL;
}

/* Handlers have the type that their macro declares, as Apache's API requires. */
const command_rec settings_directives[] = {
    AP_INIT_FLAG("SplitEngine", set_engine, NULL, RSRC_CONF,
                 "On or Off (default): whether the requests of this host are measured and placed"),
    AP_INIT_TAKE1("SplitKey", set_key, NULL, RSRC_CONF,
                  "what identifies the kind of a request: script (default), url or pattern"),
    AP_INIT_FLAG("SplitTrustHeader", set_trust_header, NULL, RSRC_CONF,
                 "On or Off (default): whether the header split-id is believed to come from a "
                 "own front server"),
    AP_INIT_TAKE1("SplitDirectory", set_directory, NULL, RSRC_CONF,
                  "the folder of the segments (default /run/hardmeter-split)"),
    AP_INIT_TAKE1("SplitAppId", set_app_id, NULL, RSRC_CONF,
                  "this application's number (default: from the program's name)"),
    AP_INIT_TAKE1("SplitName", set_name, NULL, RSRC_CONF,
                  "this application's name for people (default: web)"),
    AP_INIT_TAKE1("SplitKinds", set_kinds, NULL, RSRC_CONF,
                  "how many kinds there can be (default 1024)"),
    {NULL, {NULL}, NULL, 0, RAW_ARGS, NULL}};
