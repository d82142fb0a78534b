/*
 * lua_store [--every N] [--main] STORE SCRIPT [ARGUMENT...]: a Lua whose heap is in a store.
 *
 *   not there ── script begins ──> running ── commit(), every N instructions ──> committed
 *                                     ^                                             │
 *                                     └──────── killed, started again ──────────────┘
 *
 * A script runs as a coroutine of the main thread, and a commit is a yield of it to main(): then
 * nothing of Lua is on the C stack, and all that the script is, its call stack included, lies in
 * the store. commit() called where a coroutine cannot yield (in another coroutine, in a function
 * that table.sort calls) takes effect at the next instruction where the script can.
 *
 * What a run has that the next one does not: open files (closed there, the standard ones renewed),
 * the addresses that tostring() prints. What was printed after the last commit is printed once
 * more. A traversal by next() cannot go on, after a commit and a kill, from a key that was removed.
 * C libraries cannot be loaded.
 *
 * --main runs it in the main thread, for programs that ask for that (Lua's own tests): the store
 * then changes when the script ends.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_store.h"

#include "lauxlib.h"
#include "lgc.h"
#include "lualib.h"

#include "heap.h"

static struct {
  int every; /* instructions between two commits; 0: commit() alone */
  int in_main;
  char *path, *script;
  char **arguments;
  int count;
} wanted;

static p3l_store *store;
static lua_State *script; /* the coroutine */
static int commit_due;    /* asked for where the script could not yield */

static void die(const char *what) {
  fprintf(stderr, "lua_store: %s\n", what);
  exit(2);
}

static void must(p3l_code code, const p3l_error *error) {
  if (code != P3L_OK) die(error->message);
}

/* ---- commits ---- */

static void ask_each(lua_State *L, lua_Debug *event);

static void plan_next(void) {
  int count = commit_due ? 1 : wanted.every;
  lua_sethook(script, count > 0 ? ask_each : NULL, count > 0 ? LUA_MASKCOUNT : 0, count);
}

static void ask_each(lua_State *L, lua_Debug *event) {
  (void)event;
  if (L == script && lua_isyieldable(L)) {
    commit_due = 0;
    lua_yield(L, 0);
  } else if (!commit_due) {
    commit_due = 1;
    plan_next();
  }
}

static int commit(lua_State *L) {
  if (script != NULL && L == script && lua_isyieldable(L)) return lua_yield(L, 0);
  if (script == NULL) return luaL_error(L, "commit() in a script that runs in the main thread");
  commit_due = 1;
  plan_next();
  return 0;
}

/* What is above the top of a stack, and calls that have ended, may lead to what was freed. */
static void forget_what_ended(lua_State *thread) {
  for (StkId at = thread->top; thread->stack != NULL && at < thread->stack_last + EXTRA_STACK; at++)
    if (!ttisnil(s2v(at))) setnilvalue(s2v(at));
  for (CallInfo *at = thread->ci->next; at != NULL && at->func != NULL; at = at->next) {
    at->func = at->top = NULL;
    at->u.l.savedpc = NULL;
  }
}

/* Between two collections no object is in a list of the collector. */
static void commit_heap(lua_State *first) {
  p3l_error error;
  fflush(stdout);
  if (G(first)->gckind == KGC_INC && G(first)->gcstate != GCSpause)
    luaC_runtilstate(first, bitmask(GCSpause));
  for (lua_State *at = first; at != NULL; at = lua_store_next_thread(at)) forget_what_ended(at);
  lua_store_give_back();
  must(p3l_commit(store, &error), &error);
  must(p3l_begin(store, &error), &error);
}

/* ---- what is of this run only ---- */

/* Files are open in one run. Those of an earlier one are closed now, but for the standard ones. */
static void renew_files(lua_State *L) {
  static const char *const names[] = {"stdin", "stdout", "stderr"};
  FILE *files[] = {stdin, stdout, stderr};
  luaL_Stream *standard[3] = {NULL};
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_IOLIBNAME) == LUA_TTABLE)
    for (int at = 0; at < 3; at++) {
      lua_getfield(L, -1, names[at]);
      standard[at] = luaL_testudata(L, -1, LUA_FILEHANDLE);
      if (standard[at] != NULL) standard[at]->f = files[at];
      lua_pop(L, 1);
    }
  lua_pop(L, 2);
  luaL_getmetatable(L, LUA_FILEHANDLE);
  const Table *files_have = lua_topointer(L, -1);
  for (GCObject *at = G(L)->finobj; at != NULL; at = at->next) {
    if (at->tt != LUA_VUSERDATA || gco2u(at)->metatable != files_have) continue;
    luaL_Stream *file = (luaL_Stream *)getudatamem(gco2u(at));
    if (file != standard[0] && file != standard[1] && file != standard[2]) file->closef = NULL;
  }
  lua_pop(L, 1);
}

static int panic(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  die(message == NULL ? "an error without a message" : message);
  return 0;
}

/* As luaL_newstate() has it: off until warn("@on"). */
static void warn(void *state, const char *message, int more) {
  static int on, within;
  (void)state;
  if (!within && !more && *message == '@') {
    if (strcmp(message, "@on") == 0) on = 1;
    if (strcmp(message, "@off") == 0) on = 0;
    return;
  }
  if (on) fprintf(stderr, "%s%s%s", within ? "" : "Lua warning: ", message, more ? "" : "\n");
  within = more;
}

/* Functions have the addresses of this program: another build would call something else. */
static uint64_t program_number(void) {
  uint64_t number = UINT64_C(0xcbf29ce484222325);
  FILE *self = fopen("/proc/self/exe", "rb");
  if (self == NULL) die("/proc/self/exe cannot be read");
  for (int byte; (byte = getc(self)) != EOF;) number = (number ^ (uint8_t)byte) * 0x100000001b3;
  fclose(self);
  return number;
}

struct program {
  uint64_t number;
};
P3L_PLAIN_TYPE(lua_program, struct program, 1);

static lua_State *open_state(void) {
  p3l_error error;
  p3l_options options = {.create = true};
  must(p3l_open(wanted.path, &options, &store, &error), &error);
  lua_store_heap(store);
  must(p3l_begin(store, &error), &error);
  struct program *program = p3l_root(store, "program");
  void *object = p3l_root(store, "lua");
  lua_State *first;
  if (object != NULL) {
    if (program == NULL || program->number != program_number())
      die("the store is of another build of this program; functions are elsewhere now");
    first = lua_store_state_of(object);
    renew_files(first);
  } else {
    first = lua_newstate(lua_store_allocate, NULL);
    if (first == NULL) die(p3l_failure(store)->message);
    luaL_openlibs(first);
    lua_register(first, "commit", commit);
    program = p3l_new(store, lua_program);
    program->number = program_number();
    p3l_set_root(store, "program", program);
    p3l_set_root(store, "lua", lua_store_object_of(first));
  }
  lua_atpanic(first, panic);
  lua_setwarnf(first, warn, NULL);
  return first;
}

/* ---- the script ---- */

#define SCRIPT "lua_store.script"

static void load(lua_State *L) {
  lua_createtable(L, wanted.count, 1);
  lua_pushstring(L, wanted.script);
  lua_rawseti(L, -2, 0);
  for (int at = 0; at < wanted.count; at++) {
    lua_pushstring(L, wanted.arguments[at]);
    lua_rawseti(L, -2, at + 1);
  }
  lua_setglobal(L, "arg");
  if (luaL_loadfile(L, wanted.script) != LUA_OK) die(lua_tostring(L, -1));
}

static int fail(lua_State *L, lua_State *thread) {
  luaL_traceback(L, thread, luaL_tolstring(thread, -1, NULL), 0);
  fprintf(stderr, "lua_store: %s\n", lua_tostring(L, -1));
  return 1;
}

static int run_in_main(lua_State *first) {
  load(first);
  int status = lua_pcall(first, 0, 0, 0);
  if (status != LUA_OK) return fail(first, first);
  commit_heap(first);
  return 0;
}

static int run_as_coroutine(lua_State *first) {
  if (lua_getfield(first, LUA_REGISTRYINDEX, SCRIPT) == LUA_TTHREAD) {
    script = lua_tothread(first, -1);
  } else {
    script = lua_newthread(first);
    lua_setfield(first, LUA_REGISTRYINDEX, SCRIPT);
    load(first);
    lua_xmove(first, script, 1);
  }
  lua_settop(first, 0);
  int status, results;
  for (;;) {
    plan_next();
    status = lua_resume(script, first, 0, &results);
    if (status != LUA_YIELD) break;
    lua_pop(script, results);
    commit_heap(first);
  }
  if (status != LUA_OK) return fail(first, script);
  lua_pushnil(first);
  lua_setfield(first, LUA_REGISTRYINDEX, SCRIPT);
  commit_heap(first);
  return 0;
}

/* ---- arguments ---- */

static error_t parse(int key, char *word, struct argp_state *state) {
  switch (key) {
    case 'e': wanted.every = atoi(word); return 0;
    case 'm': wanted.in_main = 1; return 0;
    case ARGP_KEY_ARG:
      if (state->arg_num == 0) {
        wanted.path = word;
        return 0;
      }
      wanted.script = word;
      wanted.arguments = state->argv + state->next;
      wanted.count = state->argc - state->next;
      state->next = state->argc;
      return 0;
    case ARGP_KEY_END:
      if (wanted.script == NULL) argp_usage(state);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

int main(int argc, char **argv) {
  static const struct argp_option options[] = {
      {"every", 'e', "N", 0, "Commit each N instructions of the script", 0},
      {"main", 'm', NULL, 0, "Run in the main thread, and commit at the end", 0},
      {0}};
  static const struct argp arguments = {
      options,
      parse,
      "STORE SCRIPT [ARGUMENT...]",
      "Runs a Lua script whose state is in STORE, and goes on where it was killed",
      NULL,
      NULL,
      NULL};
  argp_parse(&arguments, argc, argv, ARGP_IN_ORDER, NULL, NULL);
  lua_State *first = open_state();
  int status = wanted.in_main ? run_in_main(first) : run_as_coroutine(first);
  if (status != 0) p3l_abort(store);
  p3l_error error;
  p3l_abort(store); /* the transaction behind the last commit, which has nothing */
  must(p3l_close(store, &error), &error);
  return status;
}
