/* The interface of the extension `split` for split_mysqlnd and split_pgsql. */
#ifndef PHP_SPLIT_H
#define PHP_SPLIT_H

#include <php.h>

#define PHP_SPLIT_VERSION "0.1.0"

/* The entry of an extension `name` that has no functions and needs these others. */
#define PHP_SPLIT_MODULE(name, needed)                                  \
  zend_module_entry name##_module_entry = {STANDARD_MODULE_HEADER_EX,   \
                                           NULL,                        \
                                           needed,                      \
                                           #name,                       \
                                           NULL,                        \
                                           PHP_MINIT(name),             \
                                           NULL,                        \
                                           NULL,                        \
                                           NULL,                        \
                                           NULL,                        \
                                           PHP_SPLIT_VERSION,           \
                                           STANDARD_MODULE_PROPERTIES}; \
  ZEND_GET_MODULE(name)

/* The use of a statement's text: executed once, or prepared for any number of executions. */
enum php_split_use { PHP_SPLIT_ONCE, PHP_SPLIT_KEPT };

/* The statement with the comment of this thread's request; NULL: it is not changed. Of
 * statements executed once, only some get it (comment.h). */
PHPAPI zend_string *php_split_commented(const char *statement, size_t length,
                                        enum php_split_use use);

#endif
