/*
 * The directives of mod_split.
 */
#ifndef MOD_SPLIT_SETTINGS_H
#define MOD_SPLIT_SETTINGS_H

#include "keys.h"

#include <httpd.h>
#include <http_config.h>

#include <stdbool.h>
#include <stdint.h>

/* The one name that Apache looks for. */
extern module AP_MODULE_DECLARE_DATA split_module __attribute__((visibility("default")));

enum on_off { UNSET = 0, OFF, ON };

/* Settings of a virtual host; defaults are the main server's. */
struct host_settings {
  enum on_off engine;
  enum on_off trust_header;
  enum key_choice key;
};

/* Settings of the whole server: one application, one segment. */
struct server_settings {
  const char *directory; /* NULL: the library's default */
  const char *name;
  uint32_t app_id; /* 0: from the program's name */
  int64_t kinds;   /* 0: the library's default */
};

struct settings {
  struct host_settings host;
  struct server_settings server; /* set only in the main server's */
};

extern const command_rec settings_directives[];
void *settings_create(apr_pool_t *pool, server_rec *server);
void *settings_merge(apr_pool_t *pool, void *base, void *host);

const struct settings *settings_of(const server_rec *server);
/* Whether any host has the engine on. */
bool settings_engine_anywhere(const server_rec *main_server);

#endif
