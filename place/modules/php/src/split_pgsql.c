/*
 * The PHP extension `split_pgsql`: adds the id of the causing request to statements for PostgreSQL.
 *
 * Neither pgsql nor PDO has a plugin API, and libpq none for text. So this extension wraps the
 * functions and methods of PHP that take a statement: it replaces the statement among their
 * arguments by one with the comment, and calls the original. Functions that build their statement
 * internally (pg_insert, pg_update, pg_select, pg_delete, pg_copy_from, PDO::beginTransaction ...)
 * are not covered.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php_split.h"

#include <ext/pdo/php_pdo_driver.h>

typedef zif_handler entry;

/* Exchanges argument number `index`, if it is a string and gets a comment. The frame owns its arguments, and drops the new one when
 * the call is over. */
static void comment_argument(zend_execute_data *execute_data, uint32_t index) {
  zval *statement = ZEND_CALL_ARG(execute_data, index);
  ZVAL_DEREF(statement);
  if (Z_TYPE_P(statement) != IS_STRING) return;
  zend_string *commented =
      php_split_commented(Z_STRVAL_P(statement), Z_STRLEN_P(statement), PHP_SPLIT_KEPT);
  if (!commented) return;
  zval *argument = ZEND_CALL_ARG(execute_data, index);
  zval_ptr_dtor(argument);
  ZVAL_STR(argument, commented);
}

/* --- ext/pgsql --------------------------------------------------------------------------------------------------------------------- */

/* Position of the statement: functions may be called without their connection, which is the
 * first argument. */
struct function {
  const char *name;
  uint32_t index;     /* of the statement, if the connection is given ... */
  uint32_t arguments; /* ... which it is from this number of arguments on */
  entry original;
};

enum { QUERY, EXEC, QUERY_PARAMS, PREPARE, SEND_QUERY, SEND_QUERY_PARAMS, SEND_PREPARE, FUNCTIONS };

static struct function functions[FUNCTIONS] = {
    [QUERY] = {"pg_query", 2, 2, NULL},
    [EXEC] = {"pg_exec", 2, 2, NULL}, /* its name of old */
    [QUERY_PARAMS] = {"pg_query_params", 2, 3, NULL},
    [PREPARE] = {"pg_prepare", 3, 3, NULL},
    [SEND_QUERY] = {"pg_send_query", 2, 2, NULL},
    [SEND_QUERY_PARAMS] = {"pg_send_query_params", 2, 3, NULL},
    [SEND_PREPARE] = {"pg_send_prepare", 3, 3, NULL},
};

static void enter(struct function *function, zend_execute_data *execute_data, zval *return_value) {
  uint32_t given = ZEND_CALL_NUM_ARGS(execute_data);
  uint32_t index = given >= function->arguments ? function->index : function->index - 1;
  if (index <= given) comment_argument(execute_data, index);
  function->original(execute_data, return_value);
}

static ZEND_NAMED_FUNCTION(enter_query) { enter(&functions[QUERY], execute_data, return_value); }
static ZEND_NAMED_FUNCTION(enter_exec) { enter(&functions[EXEC], execute_data, return_value); }
static ZEND_NAMED_FUNCTION(enter_query_params) {
  enter(&functions[QUERY_PARAMS], execute_data, return_value);
}
static ZEND_NAMED_FUNCTION(enter_prepare) {
  enter(&functions[PREPARE], execute_data, return_value);
}
static ZEND_NAMED_FUNCTION(enter_send_query) {
  enter(&functions[SEND_QUERY], execute_data, return_value);
}
static ZEND_NAMED_FUNCTION(enter_send_query_params) {
  enter(&functions[SEND_QUERY_PARAMS], execute_data, return_value);
}
static ZEND_NAMED_FUNCTION(enter_send_prepare) {
  enter(&functions[SEND_PREPARE], execute_data, return_value);
}

static const entry entries[FUNCTIONS] = {[QUERY] = enter_query,
                                         [EXEC] = enter_exec,
                                         [QUERY_PARAMS] = enter_query_params,
                                         [PREPARE] = enter_prepare,
                                         [SEND_QUERY] = enter_send_query,
                                         [SEND_QUERY_PARAMS] = enter_send_query_params,
                                         [SEND_PREPARE] = enter_send_prepare};

/* --- PDO --------------------------------------------------------------------------------------------------------------------------- */

static entry original_pdo_prepare, original_pdo_query, original_pdo_exec;

/* Other drivers have their own extension (split_mysqlnd), or no server. */
static bool speaks_postgres(zval *pdo) {
  const pdo_dbh_t *handle = Z_PDO_DBH_P(pdo);
  return handle->driver && !strcmp(handle->driver->driver_name, "pgsql");
}

/* The application continues to see its own text. */
static void restore_query_string(zval *statement, zend_string *text) {
  if (Z_TYPE_P(statement) != IS_OBJECT) return;
  zval value;
  zend_string *name = zend_string_init(ZEND_STRL("queryString"), 0);
  ZVAL_STR(&value, text);
  /* Bypasses the class's handler, which makes it read-only. */
  zend_std_write_property(Z_OBJ_P(statement), name, &value, NULL);
  zend_string_release(name);
}

static void enter_pdo(entry original, bool makes_statement, zend_execute_data *execute_data,
                      zval *return_value) {
  if (ZEND_CALL_NUM_ARGS(execute_data) < 1 || !speaks_postgres(ZEND_THIS)) {
    original(execute_data, return_value);
    return;
  }
  zval before;
  ZVAL_COPY_DEREF(&before, ZEND_CALL_ARG(execute_data, 1));
  comment_argument(execute_data, 1);
  original(execute_data, return_value);
  if (makes_statement && !EG(exception) && Z_TYPE(before) == IS_STRING)
    restore_query_string(return_value, Z_STR(before));
  zval_ptr_dtor(&before);
}

static ZEND_NAMED_FUNCTION(enter_pdo_prepare) {
  enter_pdo(original_pdo_prepare, true, execute_data, return_value);
}
static ZEND_NAMED_FUNCTION(enter_pdo_query) {
  enter_pdo(original_pdo_query, true, execute_data, return_value);
}
static ZEND_NAMED_FUNCTION(enter_pdo_exec) {
  enter_pdo(original_pdo_exec, false, execute_data, return_value);
}

/* --- The process ------------------------------------------------------------------------------------------------------------------- */

/* Wraps a function or method; no effect if it does not exist (its extension is not loaded). */
static void override(HashTable *table, const char *name, entry ours, entry *original) {
  zend_function *function = zend_hash_str_find_ptr(table, name, strlen(name));
  if (!function || function->type != ZEND_INTERNAL_FUNCTION) return;
  *original = function->internal_function.handler;
  function->internal_function.handler = ours;
}

static PHP_MINIT_FUNCTION(split_pgsql) {
  (void)type, (void)module_number;
  for (size_t i = 0; i < FUNCTIONS; i++)
    override(CG(function_table), functions[i].name, entries[i], &functions[i].original);
  zend_class_entry *pdo = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdo"));
  if (pdo) {
    override(&pdo->function_table, "prepare", enter_pdo_prepare, &original_pdo_prepare);
    override(&pdo->function_table, "query", enter_pdo_query, &original_pdo_query);
    override(&pdo->function_table, "exec", enter_pdo_exec, &original_pdo_exec);
  }
  return SUCCESS;
}

static const zend_module_dep needed[] = {ZEND_MOD_REQUIRED("split") ZEND_MOD_OPTIONAL("pgsql")
                                             ZEND_MOD_OPTIONAL("pdo") ZEND_MOD_END};

PHP_SPLIT_MODULE(split_pgsql, needed)
