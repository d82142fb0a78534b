<?php
// Name and password before an action of members. No statement.
require '_site.php';
$next = text('next', 20);
if (!in_array($next, ['put_bid', 'buy_now', 'put_comment'], true)) {
    stop(400, 'The page does not know what follows.');
}
$item = number('item');
$to = number('to', 1, 0);
page('Who are you');
echo '<form method="post" action="', $next, '.php"><input type="hidden" name="item" value="', $item, '"><input type="hidden" name="to" value="', $to,
    '"><label>Name <input name="nickname" maxlength="20"></label><label>Password <input name="password" type="password" maxlength="40"></label>',
    '<button>Go on</button></form>';
done();
