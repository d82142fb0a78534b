<?php
// Buys an item: up to the remaining quantity; the auction ends with the last.
require '_site.php';
$member = member();
$id = number('item');
$quantity = number('qty');
database()->begin_transaction();
$item = item($id, true);
if ($item['open'] !== 1 || $item['buy_now'] === 0 || $quantity > $item['quantity']) {
    database()->rollback();
    stop(422, 'So many are not left.');
}
if ($quantity === $item['quantity']) {
    query('UPDATE items SET quantity = 0, end_date = NOW() WHERE id = ?', $id);
} else {
    query('UPDATE items SET quantity = quantity - ? WHERE id = ?', $quantity, $id);
}
query('INSERT INTO buy_now (buyer_id, item_id, qty, date) VALUES (?, ?, ?, NOW())', $member['id'], $id, $quantity);
database()->commit();
page('It is yours');
echo '<p class="stored">', $quantity, ' of ', esc($item['name']), ', ', money($quantity * $item['buy_now']), ' in all.</p>';
done();
