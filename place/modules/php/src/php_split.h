/*
 * What the extension `split` gives to those that build on it (split_mysqlnd, split_pgsql).
 */
#ifndef PHP_SPLIT_H
#define PHP_SPLIT_H

#include <php.h>

#define PHP_SPLIT_VERSION "0.1.0"

/* What is done with a statement's text: executed now, or kept to be executed any number of times. */
enum php_split_use { PHP_SPLIT_ONCE, PHP_SPLIT_KEPT };

/* The statement with the comment that names the request of this thread; NULL: it goes as it is. Of those that are executed once, some
 * do (comment.h). */
PHPAPI zend_string *php_split_commented(const char *statement, size_t length,
                                        enum php_split_use use);

#endif
