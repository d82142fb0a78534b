<?php
// Open auctions of a category whose sellers live in a region. One statement, a join over the whole category:
// the heavy kind.
require '_site.php';
$category = number('category');
$region = number('region');
$page = number('page', 0, 0);
$items = rows(
    'SELECT items.id, items.name, items.initial_price, items.max_bid, items.nb_of_bids, items.end_date FROM items ' .
    'JOIN users ON users.id = items.seller WHERE items.category = ? AND users.region = ? AND items.end_date >= NOW() LIMIT ?, ?',
    $category, $region, $page * PAGE_ROWS, PAGE_ROWS + 1
);
page('Open auctions near you');
item_table($items, 'region.php?category=' . $category . '&amp;region=' . $region, $page);
done();
