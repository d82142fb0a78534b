<?php
// Open auctions by a word of their names, ordered by end time. One statement that reads all items.
require '_site.php';
$words = text('words', 40);
$page = number('page', 0, 0);
$pattern = '%' . addcslashes($words, '%_\\') . '%';
$items = rows(
    'SELECT id, name, initial_price, max_bid, nb_of_bids, end_date FROM items WHERE name LIKE ? AND end_date >= NOW() ' .
    'ORDER BY end_date, id LIMIT ?, ?',
    $pattern, $page * PAGE_ROWS, PAGE_ROWS + 1
);
page('Auctions with ' . $words);
item_table($items, 'search.php?words=' . rawurlencode($words), $page);
done();
