<?php
// The form for a bid, with the least that it must be.
require '_site.php';
$member = member();
$item = item(number('item'));
if ($item['open'] !== 1) {
    stop(422, 'The auction is over.');
}
$least = least_bid($item);
page('Bid for ' . $item['name']);
echo '<p>At least ', money($least), '. It has ', $item['nb_of_bids'], ' bids.</p><form method="post" action="store_bid.php"><input type="hidden" name="item" value="',
    $item['id'], '"><input type="hidden" name="user" value="', $member['id'], '"><input type="hidden" name="minimum" value="', $least,
    '"><input name="bid"><input name="max_bid"><input name="qty"><button>Bid</button></form>';
done();
