<?php
// The bids for an item. One statement for each bidder's name, as in the original site.
require '_site.php';
$item = item(number('item'));
$bids = rows('SELECT user_id, bid, qty, date FROM bids WHERE item_id = ? ORDER BY bid DESC LIMIT 50', $item['id']);
page('Bids for ' . $item['name']);
echo '<p><a href="item.php?item=', $item['id'], '">The item</a></p><table>';
foreach ($bids as $bid) {
    echo '<tr><td class="price">', money($bid['bid']), '</td><td>', $bid['qty'], '</td><td>', $bid['date'], '</td><td><a href="user.php?user=',
        $bid['user_id'], '">', esc(nickname((int) $bid['user_id'])), '</a></td></tr>';
}
echo '</table>';
done();
