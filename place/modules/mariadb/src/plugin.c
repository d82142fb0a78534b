/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The plugin's interface to the server: its declaration, settings and status variables.
 *
 * Sessions may use it as long as they live, so it is switched by split_engine rather than by UNINSTALL.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit.h"
#include "groups.h"
#include "instrumentation.h"
#include "server.h"
#include "split.h"
#include "statement.h"

/* enum_policy: whether to apply the analyzer's decisions. */
enum { POLICY_OBSERVE, POLICY_FOLLOW };
/* enum_interface: the server's interface from which statements are collected. */
enum { INTERFACE_AUTO, INTERFACE_INSTRUMENTATION, INTERFACE_AUDIT };

static char engine = 1;
static char *directory;
static unsigned app_id, related_app_id, kinds, probe_budget;
static unsigned long policy, backend, interface;
static char thread_groups = 1;

static split_app_id application; /* 0: the library is off */
static bool is_instrumentation;  /* the interface in use */

/* The server's log is its stderr; plugins have no function for it. */
static void say(const char *severity, const char *text) {
  char when[32];
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
  fprintf(stderr, "%s 0 [%s] split: %s\n", when, severity, text);
}

static void set(enum split_setting setting, int64_t value) { split_set(setting, &value); }

/* Settings ---------------------------------------------------------------------------------- */

static void update_engine(MYSQL_THD thd, struct st_mysql_sys_var *variable, void *target,
                          const void *value) {
  (void)thd, (void)variable;
  char on = *(const char *)value;
  *(char *)target = on;
  if (application == 0) return;
  statement_switch(on != 0);
  set(SPLIT_COLLECT, on != 0);
  say("Note", on ? "switched on" : "switched off; all threads have their affinity back");
}

static void update_policy(MYSQL_THD thd, struct st_mysql_sys_var *variable, void *target,
                          const void *value) {
  (void)thd, (void)variable;
  *(unsigned long *)target = *(const unsigned long *)value;
  set(SPLIT_PLACE, policy == POLICY_FOLLOW);
}

static void update_thread_groups(MYSQL_THD thd, struct st_mysql_sys_var *variable, void *target,
                                 const void *value) {
  (void)thd, (void)variable;
  *(char *)target = *(const char *)value;
  groups_switch(thread_groups != 0);
}

static void update_probe_budget(MYSQL_THD thd, struct st_mysql_sys_var *variable, void *target,
                                const void *value) {
  (void)thd, (void)variable;
  *(unsigned *)target = *(const unsigned *)value;
  set(SPLIT_PROBE_BUDGET, probe_budget);
}

static const char *policies[] = {"observe", "follow", NULL};
/* By name: MariaDB 11 has an additional field. */
static TYPELIB policies_type = {.count = 2, .name = "split_policies", .type_names = policies};
static const char *backends[] = {"auto", "pmu", "probe", "none", NULL}; /* as enum split_backend */
static TYPELIB backends_type = {.count = 4, .name = "split_backends", .type_names = backends};
static const char *interfaces[] = {"auto", "instrumentation", "audit", NULL};
static TYPELIB interfaces_type = {.count = 3, .name = "split_interfaces", .type_names = interfaces};

static MYSQL_SYSVAR_BOOL(
    engine, engine, PLUGIN_VAR_OPCMDARG,
    "Whether statements are measured, and threads placed. Switched off, threads get their "
    "affinity back at once",
    NULL, update_engine, 1);
static MYSQL_SYSVAR_STR(
    directory, directory, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "Folder of the segments, the analyzer's too; empty: the environment's SPLIT_DIRECTORY, else "
    "/run/hardmeter-split",
    NULL, NULL, "");
static MYSQL_SYSVAR_UINT(
    app_id, app_id, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "Id of this server, which distinguishes it from others on the machine; 0: made from its name",
    NULL, NULL, 0, 0, (1u << 24) - 1, 0);
static MYSQL_SYSVAR_UINT(related_app_id, related_app_id, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                         "Id of the web server whose pages send the statements; 0: none", NULL,
                         NULL, 0, 0, (1u << 24) - 1, 0);
static MYSQL_SYSVAR_UINT(kinds, kinds, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                         "Maximum number of statement kinds; all others are counted as one", NULL,
                         NULL, 1024, 64, 65536, 0);
static MYSQL_SYSVAR_ENUM(
    backend, backend, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "What measures beside cycles: the processor's counters, the occupancy probe, nothing", NULL,
    NULL, 0, &backends_type);
static MYSQL_SYSVAR_ENUM(
    interface, interface, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "The interface of the server that reports statements. instrumentation: where the "
    "performance schema is off; the cheaper one. audit: everywhere. auto: the cheaper one that "
    "works",
    NULL, NULL, INTERFACE_AUTO, &interfaces_type);
static MYSQL_SYSVAR_ENUM(
    policy, policy, PLUGIN_VAR_RQCMDARG,
    "observe: threads are never moved. follow: they are placed by the analyzer's decisions", NULL,
    update_policy, POLICY_FOLLOW, &policies_type);
static MYSQL_SYSVAR_BOOL(
    thread_groups, thread_groups, PLUGIN_VAR_OPCMDARG,
    "With thread_handling=pool-of-threads: whether the threads of a group may be bound to the "
    "cores of the class of statements that takes most of the group's time",
    NULL, update_thread_groups, 1);
static MYSQL_SYSVAR_UINT(
    probe_budget, probe_budget, PLUGIN_VAR_RQCMDARG,
    "What probing may cost, in millionths of the processors' time; 0: nothing is probed", NULL,
    update_probe_budget, 5000, 0, 1000000, 0);

static struct st_mysql_sys_var *settings[] = {MYSQL_SYSVAR(engine),
                                              MYSQL_SYSVAR(directory),
                                              MYSQL_SYSVAR(app_id),
                                              MYSQL_SYSVAR(related_app_id),
                                              MYSQL_SYSVAR(kinds),
                                              MYSQL_SYSVAR(backend),
                                              MYSQL_SYSVAR(policy),
                                              MYSQL_SYSVAR(thread_groups),
                                              MYSQL_SYSVAR(probe_budget),
                                              MYSQL_SYSVAR(interface),
                                              NULL};

/* SHOW STATUS LIKE 'split%' ----------------------------------------------------------------- */

static int show_number(struct st_mysql_show_var *variable, void *buffer, uint64_t value) {
  variable->type = SHOW_ULONGLONG;
  variable->value = buffer;
  *(unsigned long long *)buffer = value;
  return 0;
}

#define SHOW_COUNT(name)                                                                  \
  static int show_##name(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer, \
                         struct system_status_var *status, enum enum_var_type scope) {    \
    (void)thd, (void)status, (void)scope;                                                 \
    struct split_counts counts = {0};                                                     \
    split_counts(&counts);                                                                \
    return show_number(variable, buffer, counts.name);                                    \
  }
SHOW_COUNT(sections)
SHOW_COUNT(kinds)
SHOW_COUNT(moves)
SHOW_COUNT(probes)
SHOW_COUNT(without_room)
SHOW_COUNT(bad_origins)

static int show_app_id(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer,
                       struct system_status_var *status, enum enum_var_type scope) {
  (void)thd, (void)status, (void)scope;
  return show_number(variable, buffer, application);
}

static int show_abandoned(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer,
                          struct system_status_var *status, enum enum_var_type scope) {
  (void)thd, (void)status, (void)scope;
  return show_number(variable, buffer, statement_abandoned());
}

static int show_bound_groups(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer,
                             struct system_status_var *status, enum enum_var_type scope) {
  (void)thd, (void)status, (void)scope;
  return show_number(variable, buffer, groups_bound());
}

static int show_analyzer(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer,
                         struct system_status_var *status, enum enum_var_type scope) {
  (void)thd, (void)status, (void)scope;
  struct split_counts counts = {0};
  split_counts(&counts);
  variable->type = SHOW_CHAR;
  variable->value = buffer;
  strcpy(buffer, counts.analyzer ? "running" : "absent");
  return 0;
}

static int show_interface(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer,
                          struct system_status_var *status, enum enum_var_type scope) {
  (void)thd, (void)status, (void)scope;
  variable->type = SHOW_CHAR;
  variable->value = buffer;
  strcpy(buffer, interfaces[is_instrumentation ? INTERFACE_INSTRUMENTATION : INTERFACE_AUDIT]);
  return 0;
}

static int show_problem(MYSQL_THD thd, struct st_mysql_show_var *variable, void *buffer,
                        struct system_status_var *status, enum enum_var_type scope) {
  (void)thd, (void)status, (void)scope;
  variable->type = SHOW_CHAR;
  variable->value = buffer;
  snprintf(buffer, SHOW_VAR_FUNC_BUFF_SIZE, "%s", split_problem());
  return 0;
}

#define STATUS(name) \
  { "split_" #name, (void *)show_##name, SHOW_FUNC }
static struct st_mysql_show_var status[] = {
    STATUS(abandoned),       STATUS(analyzer),  STATUS(app_id),   STATUS(bad_origins),
    STATUS(bound_groups),    STATUS(interface), STATUS(kinds),    STATUS(moves),
    STATUS(probes),          STATUS(problem),   STATUS(sections), STATUS(without_room),
    {NULL, NULL, SHOW_UNDEF}};

/* The plugin -------------------------------------------------------------------------------- */

static void notify(MYSQL_THD thd, unsigned event_class, const void *event) {
  audit_event(thd, event_class, event);
}

static struct st_mysql_audit descriptor = {
    MYSQL_AUDIT_INTERFACE_VERSION, NULL, notify, {MYSQL_AUDIT_CONNECTION_CLASSMASK}};

/* The server reads the mask of events only after `init`: events of statements cost the server at
 * least as much as the plugin. */
static void want_statements(bool wanted) {
  const unsigned long of_statements = MYSQL_AUDIT_GENERAL_CLASSMASK | MYSQL_AUDIT_TABLE_CLASSMASK;
  descriptor.class_mask[0] = MYSQL_AUDIT_CONNECTION_CLASSMASK | (wanted ? of_statements : 0);
}

/* Writes the chosen interface, and the reason if it is not the cheaper one. */
static void choose_interface(char *text, size_t size) {
  const char *why_not =
      interface == INTERFACE_AUDIT ? "split_interface says so" : instrumentation_open();
  is_instrumentation = why_not == NULL;
  want_statements(!is_instrumentation);
  /* The instrumentation interface identifies tables only by address, and in Debian's builds
   * reports no locks. */
  statement_tables_of_text(is_instrumentation);
  if (is_instrumentation)
    snprintf(text, size, "by the instrumentation interface");
  else
    snprintf(text, size, "by the audit interface (%s)", why_not);
}

/* Never fails: a server must start even if its measurements do not work. */
static int init(void *plugin) {
  (void)plugin;
  if (directory != NULL && directory[0] != '\0') split_configure(directory);
  set(SPLIT_HASH_SIZE, kinds);
  set(SPLIT_BACKEND, (int64_t)backend);
  application = split_init_named("mariadb", app_id, related_app_id, SPLIT_KEY_TEXT);
  if (application == 0) {
    say("Warning", split_problem());
    want_statements(false);
    is_instrumentation = false;
    return 0;
  }
  set(SPLIT_COLLECT, engine != 0);
  set(SPLIT_PLACE, policy == POLICY_FOLLOW);
  set(SPLIT_PROBE_BUDGET, probe_budget);
  groups_switch(thread_groups != 0);
  statement_switch(engine != 0);
  char by[128], text[256];
  choose_interface(by, sizeof by);
  snprintf(text, sizeof text, "version %s, application %" PRIx32 ", %s%s", split_version(),
           application, by, engine ? "" : ", switched off by split_engine");
  const bool as_wished = interface != INTERFACE_INSTRUMENTATION || is_instrumentation;
  say(as_wished ? "Note" : "Warning", text);
  if (split_problem()[0] != '\0') say("Note", split_problem());
  return 0;
}

static int deinit(void *plugin) {
  (void)plugin;
  instrumentation_close();
  statement_switch(false);
  split_close();
  application = 0;
  return 0;
}

#define SPLIT_PLUGIN_VERSION 0x0001
#pragma GCC visibility push(default) /* symbols that the server looks up; all others are hidden */
maria_declare_plugin(split){
    MYSQL_AUDIT_PLUGIN,
    &descriptor,
    "split",
    "Hardmeter",
    "Measures what each kind of statement does to the caches, and places it",
    PLUGIN_LICENSE_GPL,
    init,
    deinit,
    SPLIT_PLUGIN_VERSION,
    status,
    settings,
    "0.1",
    MariaDB_PLUGIN_MATURITY_EXPERIMENTAL,
} maria_declare_plugin_end;
#pragma GCC visibility pop
