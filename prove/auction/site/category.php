<?php
// Open auctions of a category, one page. One statement: an index range with a limit.
require '_site.php';
$category = number('category');
$page = number('page', 0, 0);
$items = rows(
    'SELECT id, name, initial_price, max_bid, nb_of_bids, end_date FROM items WHERE category = ? AND end_date >= NOW() LIMIT ?, ?',
    $category, $page * PAGE_ROWS, PAGE_ROWS + 1
);
page('Open auctions');
item_table($items, 'category.php?category=' . $category, $page);
done();
