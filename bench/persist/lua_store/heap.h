/* Lua's memory in a store: the allocator, the types of what it allocates, and what is to be put in
 * order before a commit. */
#ifndef LUA_STORE_HEAP_H
#define LUA_STORE_HEAP_H

#include "lua.h"
#include "p3l.h"

/* For lua_newstate(). NULL if the store has no memory; the transaction cannot commit then. */
void *lua_store_allocate(void *state, void *block, size_t old_bytes, size_t new_bytes);
/* The store whose objects it allocates, from now on. */
void lua_store_heap(p3l_store *store);
/* Before a commit: what was freed and not used again leaves the store. */
void lua_store_give_back(void);
/* Of a main thread: its object in the store begins before it. */
void *lua_store_object_of(lua_State *first);
lua_State *lua_store_state_of(void *object);
/* The first thread but the main one, or the next of another; NULL: none. */
lua_State *lua_store_next_thread(lua_State *thread);

#endif
