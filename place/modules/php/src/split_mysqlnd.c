/*
 * The PHP extension `split_mysqlnd`: adds the id of the causing request to statements for MySQL
 * and MariaDB, from all of PHP's interfaces (mysqli, PDO): all use mysqlnd, whose methods are
 * overridden here through its plugin API.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php_split.h"

#include <ext/mysqlnd/mysqlnd.h>
#include <ext/mysqlnd/mysqlnd_ext_plugin.h>
#include <ext/mysqlnd/mysqlnd_structs.h>

static func_mysqlnd_conn_data__send_query original_send_query;
static func_mysqlnd_stmt__prepare original_prepare;

/* Text protocol: mysqli_query, PDO::query and exec, PDO's emulated statements, transactions. */
static enum_func_status send_query(MYSQLND_CONN_DATA *connection, const char *const query,
                                   const size_t length, zval *read_callback, zval *error_callback) {
  zend_string *commented = php_split_commented(query, length, PHP_SPLIT_ONCE);
  if (!commented)
    return original_send_query(connection, query, length, read_callback, error_callback);
  enum_func_status status = original_send_query(connection, ZSTR_VAL(commented),
                                                ZSTR_LEN(commented), read_callback, error_callback);
  zend_string_release(commented);
  return status;
}

/* Binary protocol. The prepared statement keeps this text for all its executions. */
static enum_func_status prepare(MYSQLND_STMT *const statement, const char *const query,
                                const size_t length) {
  zend_string *commented = php_split_commented(query, length, PHP_SPLIT_KEPT);
  if (!commented) return original_prepare(statement, query, length);
  enum_func_status status = original_prepare(statement, ZSTR_VAL(commented), ZSTR_LEN(commented));
  zend_string_release(commented);
  return status;
}

static PHP_MINIT_FUNCTION(split_mysqlnd) {
  (void)type, (void)module_number;
  MYSQLND_CLASS_METHODS_TYPE(mysqlnd_conn_data) *connection = mysqlnd_conn_data_get_methods();
  original_send_query = connection->send_query;
  connection->send_query = send_query;
  struct st_mysqlnd_stmt_methods *statement = mysqlnd_stmt_get_methods();
  original_prepare = statement->prepare;
  statement->prepare = prepare;
  return SUCCESS;
}

static const zend_module_dep needed[] = {ZEND_MOD_REQUIRED("mysqlnd") ZEND_MOD_REQUIRED("split")
                                             ZEND_MOD_END};

PHP_SPLIT_MODULE(split_mysqlnd, needed)
