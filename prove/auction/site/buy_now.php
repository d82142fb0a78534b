<?php
// The form to buy without an auction.
require '_site.php';
$member = member();
$item = item(number('item'));
if ($item['open'] !== 1 || $item['buy_now'] === 0 || $item['quantity'] === 0) {
    stop(422, 'It cannot be bought any more.');
}
$seller = nickname($item['seller']);
page('Buy ' . $item['name']);
echo '<p>', money($item['buy_now']), ' each, ', $item['quantity'], ' left, sold by ', esc($seller), '.</p><form method="post" action="store_buy_now.php">',
    '<input type="hidden" name="item" value="', $item['id'], '"><input type="hidden" name="user" value="', $member['id'],
    '"><input name="qty"><button>Buy</button></form>';
done();
