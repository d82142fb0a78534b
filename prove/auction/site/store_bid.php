<?php
// Accepts a bid if it is high enough: the item's row is locked, so that only one of two equal bids is
// accepted.
require '_site.php';
$member = member();
$id = number('item');
$bid = number('bid');
$most = number('max_bid');
$quantity = number('qty');
database()->begin_transaction();
$item = item($id, true);
if ($item['open'] !== 1 || $quantity > $item['quantity'] || $bid < least_bid($item) || $most < $bid) {
    database()->rollback();
    stop(422, 'The bid is too low, or too late, or for more than there are.');
}
query('UPDATE items SET max_bid = ?, nb_of_bids = nb_of_bids + 1 WHERE id = ?', $bid, $id);
query('INSERT INTO bids (user_id, item_id, qty, bid, max_bid, date) VALUES (?, ?, ?, ?, ?, NOW())', $member['id'], $id, $quantity, $bid, $most);
database()->commit();
page('Your bid is in');
echo '<p class="stored">Yours is the highest, ', money($bid), '. <a href="item.php?item=', $id, '">', esc($item['name']), '</a></p>';
done();
