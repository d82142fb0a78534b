<?php
// A new item.
require '_site.php';
$member = member();
$name = text('name', 100);
$description = text('description', 2000);
$initial = number('initial_price');
$reserve = number('reserve_price', 0);
$buy_now = number('buy_now', 0);
$quantity = number('quantity');
$days = min(number('days'), 14);
$category = row('SELECT id FROM categories WHERE id = ?', number('category'));
if ($category === null) {
    stop(404, 'There is no such category.');
}
query(
    'INSERT INTO items (name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid, start_date, end_date, seller, category) ' .
    'VALUES (?, ?, ?, ?, ?, ?, 0, 0, NOW(), NOW() + INTERVAL ? DAY, ?, ?)',
    $name, $description, $initial, $quantity, $reserve, $buy_now, $days, $member['id'], (int) $category['id']
);
$id = database()->insert_id;
page('It is on offer');
echo '<p class="stored"><a href="item.php?item=', $id, '">', esc($name), '</a> from ', money($initial), ', for ', $days, ' days.</p>';
done();
