/* The list of a state's threads. Compiled with the plugin: it follows and changes objects. */
#include "lua_store.h"

#include "heap.h"

static lua_State **link_of(lua_State *thread) { return lua_getextraspace(thread); }

/* lua_newthread() has copied the main thread's link. */
void lua_store_thread_made(lua_State *first, lua_State *made) { *link_of(first) = made; }

void lua_store_thread_freed(lua_State *first, lua_State *freed) {
  lua_State *at = first;
  while (*link_of(at) != freed) at = *link_of(at);
  *link_of(at) = *link_of(freed);
}

lua_State *lua_store_next_thread(lua_State *thread) { return *link_of(thread); }
