/*
 * Included before each file of Lua's core (-include): its arrays get a type in the store, tables
 * hash objects by what stays in the next run, and threads are known to the host.
 *
 * Nothing of Lua's text is changed. What is redefined: macros of lmem.h that allocate arrays, and
 * point2uint of llimits.h; what is defined: hooks that luaconf.h has for hosts.
 */
#ifndef LUA_STORE_H
#define LUA_STORE_H

#define LUA_CORE
/* Before llimits.h would define them. */
#define luai_userstatethread(L, L1) lua_store_thread_made(G(L)->mainthread, L1)
#define luai_userstatefree(L, L1) lua_store_thread_freed(G(L)->mainthread, L1)
#include "lprefix.h"

#include "lua.h"
#include "lobject.h"
#include "lstate.h"
#include "lmem.h"

/* What the next allocation without a tag is for. */
enum lua_store_kind { LS_BYTES, LS_VALUES, LS_NODES, LS_POINTERS, LS_NAMED, LS_CALLS };
extern enum lua_store_kind lua_store_kind;

/* Upvaldesc and LocVar are 16 bytes and begin with a name. Of arrays that exist only while a chunk
 * is compiled no type is needed: there is no commit meanwhile. */
#define LS_KIND_OF(t) \
  _Generic((t *)0,              \
      TValue *: LS_VALUES,      \
      StackValue *: LS_VALUES,  \
      Node *: LS_NODES,         \
      TString **: LS_POINTERS,  \
      Proto **: LS_POINTERS,    \
      Upvaldesc *: LS_NAMED,    \
      LocVar *: LS_NAMED,       \
      CallInfo *: LS_CALLS,     \
      default: LS_BYTES)

#undef luaM_new
#define luaM_new(L, t) (lua_store_kind = LS_KIND_OF(t), cast(t *, luaM_malloc_(L, sizeof(t), 0)))
#undef luaM_newvector
#define luaM_newvector(L, n, t) \
  (lua_store_kind = LS_KIND_OF(t), cast(t *, luaM_malloc_(L, (n) * sizeof(t), 0)))
#undef luaM_growvector
#define luaM_growvector(L, v, nelems, size, t, limit, e)                                         \
  ((v) = (lua_store_kind = LS_KIND_OF(t),                                                        \
          cast(t *, luaM_growaux_(L, v, nelems, &(size), sizeof(t), luaM_limitN(limit, t), e))), \
   lua_store_kind = LS_BYTES)
#undef luaM_reallocvector
#define luaM_reallocvector(L, v, oldn, n, t) \
  (lua_store_kind = LS_KIND_OF(t),           \
   cast(t *, luaM_realloc_(L, v, cast_sizet(oldn) * sizeof(t), cast_sizet(n) * sizeof(t))))

/* A number of an object, the same in each run: tables find keys that are objects by it. */
unsigned lua_store_number(const void *object);
#undef point2uint
#define point2uint(p) lua_store_number(p)

/* All threads of a state, for the host: linked by their extra space. */
void lua_store_thread_made(lua_State *first, lua_State *made);
void lua_store_thread_freed(lua_State *first, lua_State *freed);

#endif
