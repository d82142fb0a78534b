/*
 * What the extension `split` gives to those that build on it (split_mysqlnd, split_pgsql).
 */
#ifndef PHP_SPLIT_H
#define PHP_SPLIT_H

#include <php.h>

#define PHP_SPLIT_VERSION "0.1.0"

/* The statement with the comment that names the request of this thread; NULL: it goes as it is. */
PHPAPI zend_string *php_split_commented(const char *statement, size_t length);

#endif
