/* Search on pages opened from disk: browsers start no workers there, so the worker's script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const run = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = failed;
          inside.document.body.append(script);
        });
      inside.importScripts = (...sources) => sources.reduce((before, s) => before.then(() => run(s)), Promise.resolve());
      this.ready = run(url);
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
